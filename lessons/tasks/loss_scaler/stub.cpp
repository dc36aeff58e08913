// A loss scaler. ./learn 8 task says what it has to do, ./learn 8 test tries it.
#include "lessons/tasks/loss_scaler/task.h"

bool update_scale(Scaler& scaler, bool overflow) {
  // Your code.
  static_cast<void>(scaler);
  static_cast<void>(overflow);
  return true;
}
