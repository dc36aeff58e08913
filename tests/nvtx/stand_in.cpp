// A stand-in for NVIDIA's profilers, for machines without a GPU. NVTX loads it where NVTX_INJECTION64_PATH
// names it, and it writes every range as it is opened to the file $NVTX_STAND_IN.PID: two spaces for each
// range around it, and the name. The last line counts the ranges that were left open.
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

namespace {

std::mutex mutex;
thread_local int depth = 0;

std::FILE* file() {
  static std::FILE* const opened = [] {
    const char* const path = std::getenv("NVTX_STAND_IN");
    std::string name = path == nullptr ? "ranges" : path;
    name.append(".").append(std::to_string(getpid()));
    return std::fopen(name.c_str(), "w");
  }();
  return opened;
}

int push(const char* name) {
  const std::lock_guard lock(mutex);
  if (file() != nullptr) std::fprintf(file(), "%*s%s\n", 2 * depth, "", name);
  return depth++;
}

int pop() {
  return --depth;
}

void close_file() {
  if (file() != nullptr) std::fprintf(file(), "%d left open\n", depth);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0)
    return 0;
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  std::atexit(close_file);
  return 1;
}
