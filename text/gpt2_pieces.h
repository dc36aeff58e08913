#pragma once

#include <cstddef>
#include <string_view>

namespace ringtape {

/// GPT-2 cuts a text into pieces before it merges bytes, so that no token spans two words. A piece is the
/// first of these that matches (Radford et al., "Language models are unsupervised multitask learners", 2019;
/// the pattern is from its published code):
///
///   's 't 're 've 'm 'll 'd         an English ending
///   " "? letters                    with the blank before them
///   " "? numbers
///   " "? other characters           neither letters, numbers nor space
///   space                           up to the end of the text; otherwise without its last
///                                   character, which goes with the word that follows if it is
///                                   a blank, and stands alone if not
///
/// Returns the end of the piece that begins at byte `at` of `text`, which is UTF-8.
std::size_t end_of_gpt2_piece(std::string_view text, std::size_t at);

}  // namespace ringtape
