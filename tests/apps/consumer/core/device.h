#pragma once

// A header of the program with the same name as one of Ringtape's.
namespace coffee_machine {
constexpr int kCups = 2;
}
