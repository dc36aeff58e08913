#pragma once

#include <queue>
#include <vector>

namespace ringtape::planner {

/// The pending events of a simulation, the earliest first.
template <class Event>
class EventQueue {
 public:
  void add(double time, const Event& event) { queue_.push({time, event}); }

  /// Handles one event after the other, until none is left. handle(time, event) may add events, none of them
  /// earlier than `time`.
  template <class Handler>
  void run(Handler&& handle) {
    while (!queue_.empty()) {
      const Entry entry = queue_.top();
      queue_.pop();
      handle(entry.time, entry.event);
    }
  }

 private:
  struct Entry {
    double time;
    Event event;
    bool operator<(const Entry& other) const { return time > other.time; }  // the earliest on top
  };
  std::priority_queue<Entry> queue_;
};

}  // namespace ringtape::planner
