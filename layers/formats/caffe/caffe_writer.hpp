// A CaffeWriter makes the message of a net from its description: names, blobs and data. The file
// that uses it makes the layers.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "layers/formats/caffe/caffe.pb.h"
#include "layers/net.hpp"
#include "layers/net_description.hpp"

namespace omni {

class CaffeWriter {
 public:
  // `net` is built from the description.
  CaffeWriter(const TrainableNet& of, const Net& net);

 protected:
  // The description of the current layer, and the layer that was built from it.
  const LayerDescription& described() const { return of_.layers[number_]; }
  const Layer& built() const { return *net_.layers()[number_]; }
  void refuse(std::string what, std::string_view why);  // the first refusal counts

  // Returns a name that no layer or blob has. With `is_own` the file has this name for the layer.
  std::string unused(const std::string& wanted, bool is_own = false);
  std::string blob(std::size_t input = 0) const;  // the name in the new file
  // Adds a layer that reads the blobs of the described layer, and makes its output. A layer without
  // a name gets one of `kind` and its number. Blobs of a file whose layers have names keep theirs.
  caffe::LayerParameter& add(std::string_view type, std::string_view kind);
  // Adds a layer that works in place on what the last layer makes.
  caffe::LayerParameter& add_behind(const std::string& type, const std::string& name);
  // Adds the layers of data of all inputs, for both phases.
  void put_data();

  const Param* param(ParamRole role) const;  // null: the layer has none
  bool in_files(ParamRole role) const;
  void put_filler(ParamRole role, caffe::FillerParameter& to) const;
  // Writes the factors of the parameters' rates and decays, unless all of them are 1.
  void put_rates(std::initializer_list<ParamRole> roles, caffe::LayerParameter& layer) const;

  const TrainableNet& of_;
  const Net& net_;
  std::string labels_;  // the blob of labels
  caffe::NetParameter out_;
  Status status_;
  std::size_t number_ = 0;                    // of the current layer
  std::map<std::string, std::string> blobs_;  // names of the description: those in the new file

 private:
  void put_input(const std::string& blob, const InputPart& input, const TrainableNet::Files& files);
  void put_transform(caffe::LayerParameter& layer, const InputPart& of,
                     const TrainableNet::Files& files, bool trains) const;
  void put_shapes(caffe::LayerParameter& layer, const InputPart& of, std::uint32_t batch) const;
  void put_source(caffe::LayerParameter& layer, const InputPart& of, std::uint32_t batch,
                  const TrainableNet::Files& files, bool trains) const;
  std::set<std::string> names_of_file_, used_;
};

}  // namespace omni
