// SharedLinks simulates links. The messages on a link share its rate evenly, as connections in a
// network do.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace omni {

struct Message {
  double left = 0;         // s that the rest takes if no other message is on the link
  int group = 0;           // the group that waits for the message
  bool for_later = false;  // true: the group's next mini-batch waits, not the current one
};

class SharedLinks {
 public:
  explicit SharedLinks(std::size_t count) : links_(count) {}

  void send(std::size_t link, double now, const Message& message);
  double next_arrival() const;  // when the next message has arrived; infinite: none is under way
  std::vector<Message> arrived(double now);  // removes these messages from the links
  void give_up(double now);
  double busiest() const;  // s that the busiest link was busy

  // Reads or writes the state for a checkpoint, as `archive` does.
  template <class Archive>
  void visit(Archive& archive) {
    for (Link& link : links_) {
      archive(link.settled);
      archive.size(link.messages);
      for (Message& each : link.messages) {
        archive(each.left);
        archive(each.group);
        archive(each.for_later);
      }
      link.foresee();
    }
  }
  int under_way() const;
  int under_way(int group, bool for_later) const;

 private:
  struct Link {
    std::vector<Message> messages{};
    double settled = 0;  // s; the time when `left` was computed
    double busy = 0;
    double next = INFINITY;  // s; time of the next arrival
    void settle(double now);
    void foresee();
  };
  std::vector<Link> links_;
};

}  // namespace omni
