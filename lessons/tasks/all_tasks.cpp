#include "lessons/tasks/tests.h"

namespace ringtape::tasks {

#define RINGTAPE_TASK(name)              \
  void test_##name(const LearnersFile&); \
  void run_##name(const LearnersFile&)

RINGTAPE_TASK(backward);
RINGTAPE_TASK(reverse_loop);
RINGTAPE_TASK(block_sum);
RINGTAPE_TASK(online_softmax);
RINGTAPE_TASK(divisor);
RINGTAPE_TASK(adam);
RINGTAPE_TASK(clip);
RINGTAPE_TASK(loss_scaler);
RINGTAPE_TASK(ring);
RINGTAPE_TASK(bucket_hook);
RINGTAPE_TASK(zero_slice);
RINGTAPE_TASK(pipeline);
RINGTAPE_TASK(tiled_product);
RINGTAPE_TASK(attention);
RINGTAPE_TASK(column_row);

#undef RINGTAPE_TASK

const std::vector<Task>& all_tasks() {
  static const std::vector<Task> all = {
      {"backward", test_backward, run_backward},
      {"reverse_loop", test_reverse_loop, run_reverse_loop},
      {"block_sum", test_block_sum, run_block_sum},
      {"online_softmax", test_online_softmax, run_online_softmax},
      {"divisor", test_divisor, run_divisor},
      {"adam", test_adam, run_adam},
      {"clip", test_clip, run_clip},
      {"loss_scaler", test_loss_scaler, run_loss_scaler},
      {"ring", test_ring, run_ring},
      {"bucket_hook", test_bucket_hook, run_bucket_hook},
      {"zero_slice", test_zero_slice, run_zero_slice},
      {"pipeline", test_pipeline, run_pipeline},
      {"tiled_product", test_tiled_product, run_tiled_product},
      {"attention", test_attention, run_attention},
      {"column_row", test_column_row, run_column_row},
  };
  return all;
}

}  // namespace ringtape::tasks
