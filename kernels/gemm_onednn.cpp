#include <omp.h>

#include <compare>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <vector>

#include "core/error.h"
#include "kernels/gemm_vendor.h"

/// oneDNN's matmul primitive rather than its sgemm: for most shapes of an MLP's layers it is faster, and it
/// fuses the bias. Creating a primitive compiles code for one shape (about a millisecond), so each thread
/// keeps its primitives.
namespace ringtape {
namespace {

using dnnl::memory;

/// The parameters that the compiled code depends on.
struct Problem {
  std::int64_t m, n, k, lda, ldb, ldc;
  bool transpose_a, transpose_b, with_bias;
  DType dtype, out_dtype;
  double alpha, beta;
  int threads;
  auto operator<=>(const Problem&) const = default;
};

/// A primitive and its arguments' memory objects, whose addresses are set before each run.
struct Matmul {
  dnnl::matmul primitive;
  memory a, b, c, bias;
  std::vector<dnnl_exec_arg_t> arguments;
};

memory::data_type onednn_dtype(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return memory::data_type::f32;
    case DType::bf16:
      return memory::data_type::bf16;
    case DType::f16:
      return memory::data_type::f16;
    default:
      return memory::data_type::undef;
  }
}

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

/// dst = post_ops(src weights + bias): alpha scales, then the sum adds beta times the old C.
dnnl::primitive_attr attributes(const Problem& problem) {
  dnnl::post_ops post_ops;
  if (problem.alpha != 1) {
    const float alpha = static_cast<float>(problem.alpha);
#if DNNL_VERSION_MAJOR >= 3
    post_ops.append_eltwise(dnnl::algorithm::eltwise_linear, alpha, 0);
#else
    post_ops.append_eltwise(1, dnnl::algorithm::eltwise_linear, alpha, 0);
#endif
  }
  if (problem.beta != 0) post_ops.append_sum(static_cast<float>(problem.beta));
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(post_ops);
  return attributes;
}

/// Throws dnnl::error with dnnl_unimplemented where oneDNN has no such matmul on this processor.
Matmul make_matmul(const Problem& p) {
  const auto matrix = [](std::int64_t rows, std::int64_t columns, std::int64_t ld, bool transposed,
                         DType dtype) {
    const memory::dims strides = transposed ? memory::dims{1, ld} : memory::dims{ld, 1};
    return memory::desc({rows, columns}, onednn_dtype(dtype), strides);
  };
  const memory::desc a = matrix(p.m, p.k, p.lda, p.transpose_a, p.dtype);
  const memory::desc b = matrix(p.k, p.n, p.ldb, p.transpose_b, p.dtype);
  const memory::desc c = matrix(p.m, p.n, p.ldc, false, p.out_dtype);
  const memory::desc bias = p.with_bias ? matrix(1, p.n, p.n, false, p.out_dtype) : memory::desc();
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc description(cpu_engine(), a, b, bias, c, attributes(p));
#else
  const dnnl::matmul::primitive_desc description({a, b, bias, c}, attributes(p), cpu_engine());
#endif

  Matmul matmul;
  matmul.primitive = dnnl::matmul(description);
  const auto add = [&](memory& slot, int argument, const memory::desc& desc) {
    slot = memory(desc, cpu_engine(), nullptr);
    matmul.arguments.push_back({argument, slot.get()});
  };
  add(matmul.a, DNNL_ARG_SRC, a);
  add(matmul.b, DNNL_ARG_WEIGHTS, b);
  add(matmul.c, DNNL_ARG_DST, c);
  if (p.with_bias) add(matmul.bias, DNNL_ARG_BIAS, bias);
  return matmul;
}

/// The primitive for this problem, created on its first use; null where oneDNN has none. After kMaxKnown
/// different problems the thread drops its primitives, so that ever new shapes do not fill the memory.
Matmul* find_matmul(const Problem& problem) {
  constexpr std::size_t kMaxKnown = 512;
  thread_local std::map<Problem, std::optional<Matmul>> known;
  auto entry = known.find(problem);
  if (entry == known.end()) {
    if (known.size() == kMaxKnown) known.clear();
    std::optional<Matmul> made;
    try {
      made = make_matmul(problem);
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
    }
    entry = known.emplace(problem, std::move(made)).first;
  }
  return entry->second ? &*entry->second : nullptr;
}

}  // namespace

bool gemm_cpu_vendor(const GemmArgs& args) {
  if (args.dtype == DType::f64) return false;
  if (args.alpha != 1 && args.bias != nullptr) return false;  // oneDNN would scale the bias too
  try {
    Matmul* matmul = find_matmul({args.m, args.n, args.k, args.lda, args.ldb, args.ldc, args.transpose_a,
                                  args.transpose_b, args.bias != nullptr, args.dtype, args.out_dtype,
                                  args.alpha, args.beta, omp_get_max_threads()});
    if (matmul == nullptr) return false;
    matmul->a.set_data_handle(const_cast<void*>(args.a));
    matmul->b.set_data_handle(const_cast<void*>(args.b));
    matmul->c.set_data_handle(args.c);
    if (args.bias != nullptr) matmul->bias.set_data_handle(const_cast<void*>(args.bias));

    thread_local dnnl::stream stream(cpu_engine());
    // The C function, because the C++ function copies its arguments into a new hash map on every call.
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(matmul->primitive.get(), stream.get(),
                               static_cast<int>(matmul->arguments.size()), matmul->arguments.data()),
        "the matmul could not be executed");
    stream.wait();
  } catch (const dnnl::error& error) {
    fail("gemm [{}, {}] by [{}, {}] in oneDNN: {} (status {})", args.m, args.k, args.k, args.n, error.message,
         static_cast<int>(error.status));
  }
  return true;
}

std::string gemm_cpu_vendor_name() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}", version->major, version->minor);
}

}  // namespace ringtape
