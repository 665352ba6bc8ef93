/* The inner loops for processors with AVX2, which search.c uses where it finds one. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2"))), apply_to = function)
#else
#pragma GCC target("avx2,bmi,bmi2")
#endif
#define AVX2
#define KERNEL kernel_avx2
#include "kernel.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int nothing_for_this_processor;
#endif
