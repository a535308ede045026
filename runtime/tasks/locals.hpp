// Objects of any types with one owner, which need not know the types.
#pragma once

#include <memory>
#include <typeindex>
#include <unordered_map>

namespace omni {

class Locals {
 public:
  // The one of type T, default-constructed on first use.
  template <class T>
  T& get() {
    auto& slot = objects_[std::type_index(typeid(T))];
    if (!slot) slot = std::make_shared<T>();
    return *static_cast<T*>(slot.get());
  }

 private:
  std::unordered_map<std::type_index, std::shared_ptr<void>> objects_;
};

}  // namespace omni
