// What hiprtc and a GPU give a kernel, for a host compiler: included before every program that the emulator compiles.
// Nothing of the host is included, so that a kernel that needs a header fails here as it does there.

#pragma once

// Said to the portable header (kernels/gpu/compat.h), which may need a third way where a GPU's instructions are named.
#define FLEETCAL_EMULATOR 1
#define __HIP__ 1
#define __HIPCC_RTC__ 1
#define __HIP_DEVICE_COMPILE__ 1
#define __HIP_PLATFORM_AMD__ 1

#include "simt/interface.h"
#include "simt/language.h"
#include "simt/index.h"
#include "simt/wave.h"
#include "simt/atomic.h"
#include "simt/bits.h"
#include "simt/math.h"
#include "simt/amdgcn.h"
