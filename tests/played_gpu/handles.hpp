// CUDA's libraries give out handles, which are pointers to opaque data. Here every handle is looked
// up when it comes back. An unknown or destroyed handle is an error, not a crash.
#pragma once

#include <map>
#include <memory>
#include <mutex>

namespace omni::played {

template <class Handle, class Object>
class Handles {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    const auto handle = reinterpret_cast<Handle>(object.get());
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  // Returns null if there is no such handle.
  std::shared_ptr<Object> find(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto at = objects_.find(handle);
    return at == objects_.end() ? nullptr : at->second;
  }
  std::shared_ptr<Object> remove(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto node = objects_.extract(handle);
    return node ? node.mapped() : nullptr;
  }

 private:
  mutable std::mutex mutex_;
  std::map<Handle, std::shared_ptr<Object>> objects_;
};

}  // namespace omni::played
