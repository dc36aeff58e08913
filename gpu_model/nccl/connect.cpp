#include "gpu_model/nccl/connect.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_model/nccl/error.h"
#include "gpu_model/nccl/segment.h"

namespace gpu_model::nccl {
namespace {

constexpr std::chrono::milliseconds kRetry{5};

/// The message of a rank to rank 0.
struct Hello {
  int ranks, rank, device;
  char host[64];  ///< NCCL_HOSTID: ranks with different ids count as on different machines
};

/// The answer of rank 0, with the segment's file if the result is ncclSuccess.
struct Answer {
  ncclResult_t result;
  char text[200];
};

struct File {
  explicit File(int file) : number(file) {}
  File(File&& other) noexcept : number(std::exchange(other.number, -1)) {}
  ~File() {
    if (number >= 0) close(number);
  }
  int number;
};

sockaddr_un address_of(const std::string& place, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "ringtape-gpu-model-nccl-" + place;
  const std::size_t bytes = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), bytes);  // the first byte is 0: no file
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  return address;
}

Hello hello_of(int ranks, int rank, int device) {
  Hello hello{ranks, rank, device, {}};
  if (const char* const host = std::getenv("NCCL_HOSTID"))
    std::snprintf(hello.host, sizeof hello.host, "%s", host);
  return hello;
}

void send_answer(int socket, const Answer& answer, int file) {
  iovec data{const_cast<Answer*>(&answer), sizeof answer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof file)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
  }
  sendmsg(socket, &message, MSG_NOSIGNAL);
}

ncclResult_t receive_answer(int socket, int& file) {
  Answer answer;
  iovec data{&answer, sizeof answer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof file)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t bytes = 0;
  do bytes = recvmsg(socket, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC);
  while (bytes < 0 && errno == EINTR);
  if (bytes != sizeof answer) return fail(ncclRemoteError, "rank 0 ended before all ranks had connected");
  if (answer.result != ncclSuccess) return fail(answer.result, answer.text);
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr) return fail(ncclSystemError, "no shared memory came with rank 0's answer");
  std::memcpy(&file, CMSG_DATA(header), sizeof file);
  return ncclSuccess;
}

/// The error of a rank that has connected, "" if there is none.
std::string objection(const Hello& hello, const std::vector<Hello>& here) {
  const std::string rank_name = "rank " + std::to_string(hello.rank);
  if (hello.ranks != here[0].ranks) {
    return rank_name + " expects " + std::to_string(hello.ranks) + " ranks, rank 0 expects " +
           std::to_string(here[0].ranks);
  }
  for (const Hello& other : here) {
    if (other.rank == hello.rank) return rank_name + " has connected twice";
    if (other.device == hello.device && std::strcmp(other.host, hello.host) == 0) {
      return "duplicate GPU: " + rank_name + " and rank " + std::to_string(other.rank) +
             " are both on CUDA device " + std::to_string(hello.device);
    }
  }
  return "";
}

/// A socket that listens at `place`, or errno as a negative number.
int listen_at(const std::string& place) {
  File listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socklen_t length = 0;
  const sockaddr_un address = address_of(place, length);
  if (listener.number < 0 ||
      bind(listener.number, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(listener.number, kMaxRanks) != 0) {
    return -errno;
  }
  return std::exchange(listener.number, -1);
}

ncclResult_t serve(const File& listener, const Hello& own, int& file) {
  std::vector<Hello> here{own};
  std::vector<File> sockets;
  Answer answer{ncclSuccess, {}};
  while (answer.result == ncclSuccess && static_cast<int>(here.size()) < own.ranks) {
    std::vector<pollfd> waits{{listener.number, POLLIN, 0}};
    for (const File& socket : sockets) waits.push_back({socket.number, POLLRDHUP, 0});
    poll(waits.data(), waits.size(), -1);
    std::string wrong;
    for (std::size_t i = 1; i < waits.size(); ++i) {
      if (waits[i].revents == 0) continue;
      wrong = "rank " + std::to_string(here[i].rank) + " ended before all ranks had connected";
      answer.result = ncclRemoteError;
    }
    if (answer.result == ncclSuccess && waits[0].revents != 0) {
      File socket(accept4(listener.number, nullptr, nullptr, SOCK_CLOEXEC));
      Hello hello;
      if (socket.number < 0 || recv(socket.number, &hello, sizeof hello, MSG_WAITALL) != sizeof hello)
        continue;
      wrong = objection(hello, here);
      if (!wrong.empty()) answer.result = ncclInvalidUsage;
      here.push_back(hello);
      sockets.push_back(std::move(socket));
    }
    std::snprintf(answer.text, sizeof answer.text, "%s", wrong.c_str());
  }
  if (answer.result == ncclSuccess) {
    file = Segment::create(own.ranks);
    if (file < 0) {
      answer.result = ncclSystemError;
      std::snprintf(answer.text, sizeof answer.text, "no shared memory: %s", std::strerror(errno));
    }
  }
  for (const File& socket : sockets) send_answer(socket.number, answer, file);
  return answer.result == ncclSuccess ? ncclSuccess : fail(answer.result, answer.text);
}

}  // namespace

ncclResult_t connect(const std::string& place, int ranks, int rank, int device, int& file) {
  file = -1;
  const Hello hello = hello_of(ranks, rank, device);
  if (rank == 0) {
    const int listener = listen_at(place);
    if (listener >= 0) return serve(File(listener), hello, file);
    // In use: another rank 0 listens there, and answers as to any rank that comes twice.
    if (listener != -EADDRINUSE) {
      return fail(ncclSystemError, "rank 0 cannot listen at " + place + ": " + std::strerror(-listener));
    }
  }
  socklen_t length = 0;
  const sockaddr_un address = address_of(place, length);
  for (;;) {
    const File socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket.number < 0) return fail(ncclSystemError, std::string("no socket: ") + std::strerror(errno));
    if (::connect(socket.number, reinterpret_cast<const sockaddr*>(&address), length) == 0) {
      if (send(socket.number, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) continue;
      return receive_answer(socket.number, file);
    }
    std::this_thread::sleep_for(kRetry);  // rank 0 does not listen yet
  }
}

}  // namespace gpu_model::nccl
