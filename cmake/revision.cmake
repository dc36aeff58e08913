# cmake -DSOURCE=... -DHEADER=... -P revision.cmake: writes which commit the build is of, with "-dirty" where files have
# changed since. The header stays untouched where it says so already, so that nothing is compiled again.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --exclude=* OUTPUT_VARIABLE revision
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  set(revision "")  # no repository, or no git
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define RINGTAPE_REVISION \"@revision@\"\n" @ONLY)
