#include "gpu_model/runtime/symbols.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace gpu_model {
namespace {

/// The section of __shared__ variables in a check build (kernels/simt/cpu_builtins.h); in other builds they
/// are thread-local.
constexpr char kSharedSection[] = "simt_shared";

struct Function {
  std::uint64_t begin, end;  // in the file's addresses
  const char* name;
  std::size_t source;  // number of the source file in the symbol table; 0 for functions with external linkage
};
struct Shared {
  std::string function;  // mangled name
  std::size_t bytes;
  std::size_t source;
};

/// The symbols of this program's file.
class SymbolTable {
 public:
  static const SymbolTable& get() {
    static const auto* const table = new SymbolTable;
    return *table;
  }

  /// Null if it is not code of this program.
  const Function* find(const void* address) const {
    const std::uint64_t place = reinterpret_cast<std::uintptr_t>(address) - load_bias_;
    auto it =
        std::upper_bound(functions_.begin(), functions_.end(), place,
                         [](std::uint64_t at, const Function& function) { return at < function.begin; });
    if (it == functions_.begin()) return nullptr;
    --it;
    return place < std::max(it->end, it->begin + 1) ? &*it : nullptr;
  }
  std::uint64_t in_file(const void* address) const {
    return reinterpret_cast<std::uintptr_t>(address) - load_bias_;
  }
  const std::vector<Shared>& shared() const { return shared_; }

 private:
  SymbolTable() {
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* bias) {
          *static_cast<std::uint64_t*>(bias) = info->dlpi_addr;  // the first is the program
          return 1;
        },
        &load_bias_);
    const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) return;
    void* const mapping =
        mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (mapping != MAP_FAILED) read(static_cast<const char*>(mapping));
  }

  void read(const char* bytes) {
    const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(bytes);
    const auto* const sections = reinterpret_cast<const ElfW(Shdr)*>(bytes + header->e_shoff);
    const char* const section_names = bytes + sections[header->e_shstrndx].sh_offset;
    for (int i = 0; i < header->e_shnum; ++i) {
      if (std::strcmp(section_names + sections[i].sh_name, kSharedSection) == 0) shared_section_ = i;
    }
    for (int i = 0; i < header->e_shnum; ++i) {
      if (sections[i].sh_type != SHT_SYMTAB) continue;
      const auto* const symbols = reinterpret_cast<const ElfW(Sym)*>(bytes + sections[i].sh_offset);
      const char* const names = bytes + sections[sections[i].sh_link].sh_offset;
      add(symbols, sections[i].sh_size / sizeof *symbols, names);
    }
    std::sort(functions_.begin(), functions_.end(),
              [](const Function& a, const Function& b) { return a.begin < b.begin; });
  }

  void add(const ElfW(Sym) * symbols, std::size_t count, const char* names) {
    std::size_t source = 0, sources = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const ElfW(Sym)& symbol = symbols[i];
      const char* const name = names + symbol.st_name;
      const unsigned type = ELF64_ST_TYPE(symbol.st_info);
      const bool is_local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL;
      if (type == STT_FILE) source = ++sources;  // of the local symbols that follow
      if (symbol.st_shndx == SHN_UNDEF) continue;
      if (type == STT_FUNC) {
        functions_.push_back(
            {symbol.st_value, symbol.st_value + symbol.st_size, name, is_local ? source : 0});
      }
      if (type == STT_TLS || symbol.st_shndx == shared_section_) {
        add_shared(name, symbol.st_size, is_local ? source : 0);
      }
    }
  }

  /// _ZZ <function> E <variable>: a variable that is static in a function.
  void add_shared(const std::string& name, std::size_t bytes, std::size_t source) {
    if (!name.starts_with("_ZZ") || bytes == 0) return;
    shared_.push_back({"_Z" + name.substr(3), bytes, source});
  }

  std::uint64_t load_bias_ = 0;
  int shared_section_ = -1;
  std::vector<Function> functions_;
  std::vector<Shared> shared_;
};

std::string demangled(const char* symbol) {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr), &std::free);
  return text ? text.get() : symbol;
}

/// The place after the bracket that closes the one at `open`.
std::size_t after_bracket(const std::string& text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (std::strchr("(<{", text[i]) != nullptr) ++depth;
    if (std::strchr(")>}", text[i]) != nullptr && --depth == 0) return i + 1;
  }
  return text.size();
}

/// The name of a demangled function, without a template's return type and without parameters, also those of
/// functions around it: "main::{lambda(int)#2}::operator()" of "main(int)::{lambda(int)#2}::operator()(int)
/// const".
std::string name_in(const std::string& text) {
  constexpr char kOperator[] = "operator";
  std::string name;
  for (std::size_t i = 0; i < text.size();) {
    if (text.compare(i, sizeof kOperator - 1, kOperator) == 0) {
      // Its symbols are no brackets: up to the parameters, of which operator() has the second pair.
      const std::size_t symbol = i + sizeof kOperator - 1;
      const std::size_t end = text.find('(', symbol + (text.compare(symbol, 2, "()") == 0 ? 2 : 0));
      name += text.substr(i, end - i);
      i = std::min(end, text.size());
    } else if (text[i] == '<' || text[i] == '{') {
      const std::size_t end = after_bracket(text, i);
      name += text.substr(i, end - i);
      i = end;
    } else if (text[i] == '(') {
      i = after_bracket(text, i);
      if (text.compare(i, 6, " const") == 0) i += 6;
      if (text.compare(i, 2, "::") != 0) break;  // else it is in this function
    } else if (text[i] == ' ') {
      name.clear();  // before it was the return type
      ++i;
    } else {
      name += text[i++];
    }
  }
  return name;
}

/// The line of an address, by addr2line: "core/memory.cpp:351", "" if it is not known.
std::string line_of(std::uint64_t address) {
  char command[128];
  std::snprintf(command, sizeof command, "addr2line -e /proc/%d/exe 0x%llx 2>/dev/null",
                static_cast<int>(getpid()), static_cast<unsigned long long>(address));
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command, "r"), &pclose);
  char line[1024];
  if (!pipe || std::fgets(line, sizeof line, pipe.get()) == nullptr) return "";
  std::string text = line;
  text.erase(text.find_first_of(" \n"));  // "(discriminator 2)" may follow
  return text.starts_with("??") ? "" : std::filesystem::path(text).lexically_normal().string();
}

}  // namespace

std::string symbol_at(const void* address) {
  const Function* const function = SymbolTable::get().find(address);
  return function == nullptr ? "" : function->name;
}

std::string function_at(const void* address) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static auto* const known = new std::map<const void*, std::string>;
  const auto [it, is_new] = known->try_emplace(address);
  if (!is_new) return it->second;
  const std::string symbol = symbol_at(address);
  if (symbol.empty()) return it->second = "code of a library";
  std::string text = demangled(symbol.c_str());
  for (const std::string unnamed = "(anonymous namespace)::"; text.find(unnamed) != std::string::npos;) {
    text.erase(text.find(unnamed), unnamed.size());
  }
  return it->second = name_in(text);
}

std::string place_of(const void* return_address) {
  if (return_address == nullptr) return "unknown code";
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static auto* const known = new std::map<const void*, std::string>;
  const auto [it, is_new] = known->try_emplace(return_address);
  if (!is_new) return it->second;
  const void* const call = static_cast<const char*>(return_address) - 1;
  std::string text = function_at(call);
  if (SymbolTable::get().find(call) == nullptr) return it->second = text;
  const std::string line = line_of(SymbolTable::get().in_file(call));
  return it->second = line.empty() ? text : text + " at " + line;
}

std::size_t static_shared_bytes(const void* entry) {
  const SymbolTable& table = SymbolTable::get();
  const Function* const kernel = table.find(entry);
  if (kernel == nullptr) return 0;
  const std::string own = std::string(kernel->name) + "E";
  std::size_t bytes = 0;
  for (const Shared& shared : table.shared()) {
    const bool is_own =
        shared.function.starts_with(own) && (shared.source == 0 || shared.source == kernel->source);
    const bool is_of_kernel = shared.function.find("_GLOBAL__N_") != std::string::npos;
    const bool is_helpers = shared.source != 0 && shared.source == kernel->source && !is_of_kernel;
    if (is_own || is_helpers) bytes += shared.bytes;
  }
  return bytes;
}

}  // namespace gpu_model
