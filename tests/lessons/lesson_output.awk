# Compares lines that a page quotes with a program's output: awk -f lesson_output.awk QUOTED OUTPUT
# lessons_test.sh says by how much they may differ. Prints the first difference and ends with 1 if there is one.

# The line without its numbers, which become "#", and with runs of blanks as one blank.
function words_of(line) {
  gsub(/[0-9][0-9,]*([.][0-9]+)?(e[-+]?[0-9]+)?/, "#", line)
  gsub(/[ \t]+/, " ", line)
  sub(/^ /, "", line)
  sub(/ $/, "", line)
  return line
}

# Puts the numbers of a line, as they are written, into `numbers` and returns how many there are.
function numbers_of(line, numbers,    count) {
  count = 0
  while (match(line, /[0-9][0-9,]*([.][0-9]+)?(e[-+]?[0-9]+)?/)) {
    numbers[++count] = substr(line, RSTART, RLENGTH)
    gsub(/,/, "", numbers[count])
    line = substr(line, RSTART + RLENGTH)
  }
  return count
}

# One in the last digit of a number that is written with a point or an exponent: "0.25", "1.98e-07".
function last_digit(text,    mantissa, exponent) {
  exponent = 0
  if (match(text, /e/)) {
    exponent = substr(text, RSTART + 1) + 0
    text = substr(text, 1, RSTART - 1)
  }
  mantissa = index(text, ".") ? length(text) - index(text, ".") : 0
  return 10 ^ (exponent - mantissa)
}

function same_number(quoted, found,    difference, allowed) {
  if (quoted == found) return 1
  if ((quoted found) !~ /[.e]/) return 0
  difference = quoted - found
  if (difference < 0) difference = -difference
  allowed = tolerance * (quoted < 0 ? -quoted : quoted)
  if (allowed < last_digit(quoted)) allowed = last_digit(quoted)
  return difference <= allowed * 1.0001
}

function same_line(quoted, found,    a, b, count, i) {
  if (words_of(quoted) != words_of(found)) return 0
  count = numbers_of(quoted, a)
  numbers_of(found, b)
  for (i = 1; i <= count; ++i) {
    if (!same_number(a[i], b[i])) return 0
  }
  return 1
}

# Looks for the consecutive lines run[1..run_length] in the output, after the lines found before.
function find_run(    start, matching, best, best_start) {
  best = 0
  best_start = next_line
  for (start = next_line; start <= lines; ++start) {
    matching = 0
    while (matching < run_length && start + matching <= lines && same_line(run[matching + 1], output[start + matching])) ++matching
    if (matching == run_length) {
      next_line = start + run_length
      run_length = 0
      return
    }
    if (matching > best || (best == 0 && words_of(run[1]) == words_of(output[start]) && words_of(run[1]) != words_of(output[best_start]))) {
      best = matching
      best_start = start
    }
  }
  print "the page quotes: " run[best + 1]
  print "it printed:      " (best_start + best <= lines ? output[best_start + best] : "nothing more")
  is_different = 1
  exit 1
}

# The output comes last on the command line and is needed first.
BEGIN {
  while ((getline line < ARGV[2]) > 0) {
    if (line !~ /^[ \t]*$/) output[++lines] = line
  }
  ARGV[2] = ""
  next_line = 1
}

/^```/ {  # a fence begins
  if (run_length > 0) find_run()
  tolerance = length($0) > 3 ? substr($0, 4) / 100 : 0.001
  next
}
/^[ \t]*$/ { next }
$1 == "..." { if (run_length > 0) find_run(); next }
{ run[++run_length] = $0; ++quoted_lines }

END {
  if (is_different) exit 1
  if (run_length > 0) find_run()
  if (quoted_lines == 0) {
    print "the page quotes nothing"
    exit 1
  }
}
