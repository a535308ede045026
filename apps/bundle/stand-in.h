// This header begins the source of a stand-in for a CUDA library (see make-stand-in). `text` names
// the libraries that the launcher did not find.
#include <stdio.h>
#include <stdlib.h>

static char text[512];

__attribute__((constructor)) static void name_what_is_missing(void) {
  const char* missing = getenv("OMNI_MISSING_CUDA_LIBRARIES");
  snprintf(text, sizeof text, "its libraries were not found on this host%s%s", missing ? ": " : "",
           missing ? missing : "");
}
