// This is the memory of a played device. All bytes outside allocations, also between two of them,
// are 0xFF (NaN as a float) and are checked. Reading them makes results NaN. Writing them ends the
// program, at the latest when a neighbour is freed or the place is allocated again.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace omni::played {

class Memory {
 public:
  // After `allocations` allocations, the rest of the memory counts as taken by other programs. If
  // the number is negative, they take none.
  Memory(std::size_t bytes, long allocations);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* allocate(std::size_t bytes);  // null: no room
  bool release(void* address);        // false: not the begin of an allocation
  void release_all();

  bool contains(const void* address) const;  // allocated or not
  // Returns whether the range is in one allocation. An empty range may also be at an allocation's
  // end.
  bool holds(const void* address, std::size_t bytes) const;
  std::size_t capacity() const { return capacity_; }
  std::size_t available() const;

 private:
  using Allocations = std::map<unsigned char*, std::size_t>;  // begin and bytes
  unsigned char* place_for(std::size_t bytes) const;
  Allocations::iterator release(Allocations::iterator at);

  const std::size_t capacity_, mapped_;
  unsigned char* begin_;
  unsigned char* touched_end_;  // from here on never allocated, and not yet filled
  mutable std::mutex mutex_;
  Allocations allocations_;
  std::size_t used_ = 0;
  long allocations_left_;
};

}  // namespace omni::played
