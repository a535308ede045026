// Which build this is: version.cmake fills it in whenever something is built.
#pragma once

namespace omni {

extern const char* const
    kVersion;  // "0.1.0-3f2a91c8", with "-dirty" if the sources were not that commit's

}  // namespace omni
