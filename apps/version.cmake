# Writes OUT, a source file with VERSION and the commit of FOLDER. Without a commit it has VERSION alone.
execute_process(COMMAND git -C ${FOLDER} describe --always --dirty --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(commit)
  string(APPEND VERSION -${commit})
endif()
# An equal file is left alone, so that nothing is compiled again.
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT [[#include "apps/command_line.hpp"

const char* const omni::kVersion = "@VERSION@";
]])
