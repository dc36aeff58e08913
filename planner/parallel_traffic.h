#pragma once

#include <cstdint>
#include <optional>

#include "dist/communicator.h"
#include "nn/gpt_estimate.h"

namespace ringtape::planner {

/// An update of a GPT on ranks that divide the batch and the model.
struct ParallelUpdate {
  GptMemoryProblem gpt;  ///< a micro-batch on this rank; `sharding` is over the ranks that divide the batch
  std::int64_t micro_batches = 1;  ///< of this rank in an update
  bool every_micro_batch = false;  ///< ZeRO 0 and 1 also reduce gradients after each micro-batch
  std::optional<DType> compress;   ///< dtype in which gradients are sent; none: f32
};

/// The collectives of a rank in an update on each of its communicators: calls and bytes of tensors, as
/// Communicator::collectives() counts them. bytes_sent() (dist/traffic.h) converts them to bytes on links.
struct ParallelTraffic {
  CollectiveCounts data{}, tensor{}, context{}, pipeline{};
};

/// By formula, for N tokens of a micro-batch on this rank, width C, e bytes a value, L blocks of the stage, t
/// tensor ranks, P gradients including the padding of buckets, and k micro-batches:
///
///   tensor   A micro-batch has 2 borders into (with SwiGLU 3) and 2 out of the divided layers of a block, 1
///            out of the embeddings, and 1 into the output layer. Borders out of divided layers all-reduce
///            e N C in forward, borders into them in backward: 4 L + 2 all-reduces (Shoeybi et al., 2019,
///            section 3). With sequence parallelism each is a reduce-scatter in one direction and an
///            all-gather in the other (Korthikanti et al., 2022, section 4.2.2), and once an update the
///            gradients of parameters that all ranks have are summed. Cross-entropy gathers 3 f32 values for
///            each token and rank. Recomputed blocks repeat their forward.
///   data     ZeRO 0: an all-reduce of 4 P, compressed 2 P. 1: a reduce-scatter of 4 P and an all-gather of
///            4 P, or of 2 P in 16 bits. 2: k reduce-scatters. 3: k reduce-scatters and 2 k all-gathers, but
///            none after the update (Rajbhandari et al., 2020, section 7); k all-gathers without
///            reshard_after_forward, and of embeddings on a stage without the output layer. In addition a
///            flag for each parameter, and the loss.
///   context  With c ranks, for each block and micro-batch c - 1 exchanges of a shard of keys and values in
///            forward, again in recomputation, and 2 c - 1 in backward (dist/ring_attention.h). Gradients
///            are averaged over data x context, under `data`.
///   pipeline e N C for each micro-batch and chunk, to the next stage in forward and to the previous one in
///            backward, with sequence parallelism 1 / t of it; the gradients of tied embeddings, f32,
///            between the first and the last stage; the loss.
///
/// Not counted: the norms of clipping and LAMB, a few bytes.
ParallelTraffic update_traffic(const ParallelUpdate& update);

}  // namespace ringtape::planner
