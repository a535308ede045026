#include "runtime/communicator/process_board.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace omni::ranks {
namespace {

// Returns the part of a question that follows "name=", up to the next blank.
std::string_view part(std::string_view question, std::string_view name) {
  for (std::size_t at = 0; at < question.size();) {
    const std::size_t end = std::min(question.find(' ', at), question.size());
    const std::string_view word = question.substr(at, end - at);
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return word.substr(name.size() + 1);
    at = end + 1;
  }
  return {};
}

}  // namespace

ProcessBoard::ProcessBoard(const std::vector<std::string>& nodes)
    : size_(static_cast<int>(nodes.size())) {
  // MPICH reads blocks "(first node, number of nodes, ranks on each)", in the order of the ranks.
  struct Block {
    std::ptrdiff_t first;
    int nodes, each;
  };
  std::vector<std::string> known;
  std::vector<Block> blocks;
  for (const std::string& node : nodes) {
    auto at = std::ranges::find(known, node);
    if (at == known.end()) at = known.insert(known.end(), node);
    const std::ptrdiff_t number = at - known.begin();
    if (!blocks.empty() && blocks.back().nodes == 1 && blocks.back().first == number)
      ++blocks.back().each;
    else if (!blocks.empty() && blocks.back().each == 1 &&
             blocks.back().first + blocks.back().nodes == number)
      ++blocks.back().nodes;
    else
      blocks.push_back({number, 1, 1});
  }
  std::string mapping = "(vector";
  for (const Block& each : blocks)
    mapping += fmt::format(",({},{},{})", each.first, each.nodes, each.each);
  values_["PMI_process_mapping"] = mapping + ")";
}

std::vector<ProcessBoard::Answer> ProcessBoard::ask(int rank, std::string_view question) {
  const std::string_view command = part(question, "cmd");
  const auto answer = [rank](std::string line) { return std::vector{Answer{rank, line}}; };
  if (command == "init") return answer("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
  if (command == "get_maxes")
    return answer("cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024");
  if (command == "get_appnum") return answer("cmd=appnum rc=0 appnum=0");
  if (command == "get_my_kvsname") return answer("cmd=my_kvsname rc=0 kvsname=own");
  if (command == "get_universe_size")
    return answer(fmt::format("cmd=universe_size rc=0 size={}", size_));
  if (command == "finalize") return answer("cmd=finalize_ack rc=0");
  if (command == "put") {
    values_[std::string(part(question, "key"))] = part(question, "value");
    return answer("cmd=put_result rc=0 msg=success");
  }
  if (command == "get") {
    const auto found = values_.find(part(question, "key"));
    return answer(found == values_.end()
                      ? "cmd=get_result rc=-1 msg=key_not_found value=unknown"
                      : "cmd=get_result rc=0 msg=success value=" + found->second);
  }
  if (command != "barrier_in") return {};
  waiting_.insert(rank);
  if (static_cast<int>(waiting_.size()) < size_) return {};
  std::vector<Answer> all;
  for (const int each : waiting_) all.push_back({each, "cmd=barrier_out rc=0"});
  waiting_.clear();
  return all;
}

}  // namespace omni::ranks
