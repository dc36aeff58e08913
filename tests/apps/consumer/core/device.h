#pragma once

// A header of the program's own, whose name Ringtape has a header of too.
namespace coffee_machine {
constexpr int kCups = 2;
}
