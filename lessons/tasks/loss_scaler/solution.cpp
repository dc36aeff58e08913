#include "lessons/tasks/loss_scaler/task.h"

bool update_scale(Scaler& scaler, bool overflow) {
  if (overflow) {
    scaler.scale /= 2;
    scaler.good_updates = 0;
    return false;
  }
  ++scaler.good_updates;
  if (scaler.good_updates == kGrowthInterval) {
    scaler.scale *= 2;
    scaler.good_updates = 0;
  }
  return true;
}
