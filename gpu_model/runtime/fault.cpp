#include "gpu_model/runtime/fault.h"

#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "gpu_model/runtime/state.h"
#include "gpu_model/runtime/stream.h"
#include "gpu_model/runtime/symbols.h"

namespace gpu_model {
namespace {

struct sigaction previous;

/// "writes", "reads", or "touches" if the processor does not tell which.
const char* access_of([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  const auto* const user = static_cast<const ucontext_t*>(context);
  return (user->uc_mcontext.gregs[REG_ERR] & 2) != 0 ? "writes" : "reads";
#else
  return "touches";
#endif
}

/// The code of the access, as a return address: for an access in a library, such as in memcpy, the return
/// address of this program's call.
const void* code_of([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  const auto* const user = static_cast<const ucontext_t*>(context);
  const auto* const access = reinterpret_cast<const char*>(user->uc_mcontext.gregs[REG_RIP]);
  if (!symbol_at(access).empty()) return access + 1;
  void* frames[32];
  const int count = backtrace(frames, 32);
  void** const end = frames + count;
  const auto caller = std::find_if(std::find(frames, end, access), end,
                                   [](const void* frame) { return !symbol_at(frame).empty(); });
  return caller == end ? access + 1 : *caller;
#else
  return nullptr;
#endif
}

std::string place_in_memory(std::uintptr_t address, int device) {
  CUmemPoolHandle_st& pool = *state().devices[static_cast<std::size_t>(device)]->pool;
  const void* const place = reinterpret_cast<const void*>(address);
  const std::shared_ptr<BlockHistory> history = pool.history_at(place);
  if (history == nullptr) {
    return pool.find(place).second == nullptr ? "at an unmapped address"
                                              : "in memory that was never allocated";
  }
  return std::to_string(address - history->begin) + " bytes into " +
         (history->freed.name.empty() ? "" : "what was ") + describe(*history);
}

[[noreturn]] void end_process(const std::string& text) {
  std::fprintf(stderr, "gpu model: %s\n", text.c_str());
  std::abort();
}

void explain_device_fault(std::uintptr_t address, int device, const char* access, const void* code) {
  const std::string memory =
      "memory of device " + std::to_string(device) + ": " + place_in_memory(address, device);
  if (device_memory_is_open()) {
    const int opened = opened_device();
    end_process(function_at(code) + " " + access + " " + memory + ", an illegal address" +
                (opened < 0 || opened == device ? "" : " for a kernel of device " + std::to_string(opened)));
  }
  end_process("host code " + std::string(access) + " " + memory + "\n  in " + place_of(code));
}

/// True if the page has been opened, and the access can be repeated.
bool explain_pinned_fault(std::uintptr_t address, const char* access, const void* code) {
  if (state().pinned.find(reinterpret_cast<const void*>(address), 0).second == nullptr) return false;
  for (const PinnedMemory::Use& use : state().pinned.uses()) {
    if (use.is_lent || address < use.begin || address >= use.begin + use.bytes) continue;
    end_process("host code " + std::string(access) + " pinned memory that a copy on stream " +
                std::to_string(use.stream) + " " + use.name + " (" + std::to_string(use.bytes) +
                " bytes, queued in " + place_of(use.caller) +
                "), and does not wait for the copy before\n  in " + place_of(code));
  }
  state().pinned.open_page(address);  // next to the bytes that the copy uses
  return true;
}

void handle(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const int device = memory_device(info->si_addr);
  if (device >= 0) explain_device_fault(address, device, access_of(context), code_of(context));
  if (explain_pinned_fault(address, access_of(context), code_of(context))) return;
  if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(signal);
  sigaction(SIGSEGV, &previous, nullptr);  // the access is repeated, and ends the process
}

}  // namespace

void watch_for_faults() {
  struct sigaction current;
  sigaction(SIGSEGV, nullptr, &current);
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == handle) return;
  previous = current;
  struct sigaction ours = {};
  ours.sa_sigaction = handle;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGSEGV, &ours, nullptr);
}

}  // namespace gpu_model
