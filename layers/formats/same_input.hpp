// These functions compare the inputs of two nets, for the comparison of whole nets.
#pragma once

#include <string>
#include <vector>

#include "layers/formats/same_net.hpp"

namespace omni {

Error refusal(const Form& to, std::string what);  // of a net that is not the same
// Returns whether the colours of an image come in another order.
bool turns_colours(const Form& from, const Form& to);
Status check_same_inputs(const Form& from, const Form& to);
// Returns what of the inputs only training uses and is lost.
std::vector<std::string> lost_of_inputs(const Form& from, const Form& to);

}  // namespace omni
