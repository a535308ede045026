#include "runtime/communicator/letters.hpp"

#include <chrono>

#include "runtime/communicator/ranks.hpp"
#include "runtime/threads.hpp"

namespace omni::ranks {
namespace {

constexpr std::uint64_t kLast = UINT64_MAX;  // bytes of an envelope after which none follows

// An Envelope is the length and the bytes of a letter. An empty letter only shows that its sender
// is alive, so that the patience of other ranks does not end.
struct Envelope {
  std::uint64_t bytes = 0;
  std::string text{};
};

}  // namespace

struct Letters::Inbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<int, std::string>> letters;
  bool stops = false;
  int closed = 0;  // other ranks that send no more
};

Letters::Letters(std::function<void(int, const std::string&)> read)
    : read_(std::move(read)), inbox_(std::make_shared<Inbox>()) {
  const Place own = place_in_job();
  for (int peer = 0; peer < own.size; ++peer)
    if (peer != own.rank) await(inbox_, peer);
  const auto ended = std::make_shared<std::promise<void>>();
  ended_ = ended->get_future();
  start_thread([this, ended] {
    run();
    ended->set_value();
  });
}

Letters::~Letters() { stop(); }

void Letters::stop() {
  {
    const std::lock_guard lock(inbox_->mutex);
    inbox_->stops = true;
  }
  inbox_->changed.notify_one();
  ended_.wait();
}

void Letters::close() {
  stop();
  const Place own = place_in_job();
  for (int peer = 0; peer < own.size; ++peer) {
    if (peer == own.rank) continue;
    const auto last = std::make_shared<Envelope>(kLast);
    post({{&last->bytes, sizeof last->bytes, peer, kLetterTag, true, true}}, [last] {});
  }
  std::unique_lock lock(inbox_->mutex);
  inbox_->changed.wait(lock, [&] { return inbox_->closed == own.size - 1; });
}

void Letters::await(const std::shared_ptr<Inbox>& inbox, int from) {
  const auto next = std::make_shared<Envelope>();
  post({{&next->bytes, sizeof next->bytes, from, kLetterTag, false, true}}, [inbox, from, next] {
    const auto done = [inbox, from, next] {
      {
        const std::lock_guard lock(inbox->mutex);
        if (next->bytes > 0) inbox->letters.emplace_back(from, std::move(next->text));
      }
      inbox->changed.notify_one();
      await(inbox, from);
    };
    if (next->bytes == kLast) {
      const std::lock_guard lock(inbox->mutex);
      ++inbox->closed;
      return inbox->changed.notify_one();
    }
    if (next->bytes == 0) return done();
    next->text.resize(next->bytes);
    post({{next->text.data(), next->bytes, from, kLetterTag, false, true}}, done);
  });
}

void Letters::send(int to, std::string text) {
  const auto letter = std::make_shared<Envelope>();
  letter->bytes = text.size();
  letter->text = std::move(text);
  std::vector<Message> messages{{&letter->bytes, sizeof letter->bytes, to, kLetterTag, true, true}};
  if (letter->bytes > 0)
    messages.push_back({letter->text.data(), letter->bytes, to, kLetterTag, true, true});
  post(std::move(messages), [letter] {});
}

void Letters::send_to_others(const std::string& text) {
  const Place own = place_in_job();
  for (int peer = 0; peer < own.size; ++peer)
    if (peer != own.rank) send(peer, text);
}

void Letters::run() {
  constexpr std::chrono::seconds kPause(1);
  auto said = std::chrono::steady_clock::now();
  while (true) {
    std::deque<std::pair<int, std::string>> letters;
    {
      std::unique_lock lock(inbox_->mutex);
      inbox_->changed.wait_for(lock, kPause,
                               [&] { return inbox_->stops || !inbox_->letters.empty(); });
      if (inbox_->stops) return;
      letters.swap(inbox_->letters);
    }
    for (const auto& [from, text] : letters) read_(from, text);
    read_(place_in_job().rank, "");
    if (std::chrono::steady_clock::now() - said < kPause) continue;
    said = std::chrono::steady_clock::now();
    send_to_others("");
  }
}

}  // namespace omni::ranks
