// These are the objects of cuDNN's graph interface. They have named attributes, which cannot change
// after the object is finalized.
#pragma once

#include <cudnn.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace omni::played {

struct Descriptor {
  using Parts = std::vector<std::shared_ptr<const Descriptor>>;
  struct Attribute {
    cudnnBackendAttributeType_t type{};
    std::size_t count = 0;
    std::vector<std::byte> values{};  // empty: they are
    Parts parts{};
  };

  // Returns the attribute's values, or nothing unless it has `count` values of this type.
  template <class T>
  std::optional<std::vector<T>> values(cudnnBackendAttributeName_t name, std::size_t count) const {
    const auto at = attributes.find(name);
    if (at == attributes.end() || at->second.count != count ||
        at->second.values.size() != count * sizeof(T))
      return std::nullopt;
    std::vector<T> found(count);
    std::memcpy(found.data(), at->second.values.data(), count * sizeof(T));
    return found;
  }
  template <class T>
  using Bytes = std::array<std::byte, sizeof(T)>;
  template <class T>
  std::optional<T> value(cudnnBackendAttributeName_t name) const {
    const auto found = values<Bytes<T>>(name, 1);
    return found ? std::optional(std::bit_cast<T>((*found)[0])) : std::nullopt;
  }
  const Parts& parts(cudnnBackendAttributeName_t name) const {
    static const Parts none;
    const auto at = attributes.find(name);
    return at == attributes.end() ? none : at->second.parts;
  }
  // Returns the only part with this name, or null if there is none or several.
  std::shared_ptr<const Descriptor> part(cudnnBackendAttributeName_t name) const {
    return parts(name).size() == 1 ? parts(name)[0] : nullptr;
  }

  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t of,
           const std::vector<T>& given) {
    Attribute& attribute = attributes[name] = {.type = of, .count = given.size()};
    attribute.values.resize(given.size() * sizeof(T));
    std::memcpy(attribute.values.data(), given.data(), attribute.values.size());
  }
  void set(cudnnBackendAttributeName_t name, Parts given) {
    attributes[name] = {
        .type = CUDNN_TYPE_BACKEND_DESCRIPTOR, .count = given.size(), .parts = std::move(given)};
  }

  cudnnBackendDescriptorType_t type{};
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;
};

// Finalizes a descriptor as its type demands. This may add attributes, which can be read later.
cudnnStatus_t complete(Descriptor& descriptor);

// Returns null if there is no such handle.
std::shared_ptr<Descriptor> find_descriptor(cudnnBackendDescriptor_t handle);

}  // namespace omni::played
