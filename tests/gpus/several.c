/* One GPU that plays several, so that NCCL can be run with several ranks where there is one card. docs/gpus.md says how.

   Preloaded into every process, it tells a program that uses the CUDA runtime by a shared libcudart, as torch does, of
   COUNT devices, and maps all of them to the real one. NCCL, which brings a CUDA runtime of its own, is told the truth;
   it refuses two ranks on one GPU of one host, so each process gets a host of its own, between which NCCL uses sockets.
   Right for values, order and lifetimes. Wrong for speed: the ranks take turns on the card. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 8
#define INVALID_DEVICE 101
#define DEVICE_TO_DEVICE 3
#define REAL(name, ...) ({ static int (*f)(); if (!f) f = (int (*)())in_runtime(name); f(__VA_ARGS__); })
#define CHECK(device) if ((device) < 0 || (device) >= COUNT) return INVALID_DEVICE

static void *(*find)(void *, const char *); /* the real dlsym */
static __thread int current;

__attribute__((constructor)) static void begin(void) {
  find = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  if (!find) find = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
}

static void *in_runtime(const char *name) {
  static void *lib;
  if (!lib) lib = dlopen("libcudart.so.13", RTLD_LAZY | RTLD_NOLOAD);
  if (!lib) lib = dlopen("libcudart.so.12", RTLD_LAZY | RTLD_NOLOAD);
  return lib ? find(lib, name) : NULL;
}

/* The runtime: what takes a device or gives one back. */

int cudaGetDeviceCount(int *count) {
  int error = REAL("cudaGetDeviceCount", count);
  if (!error && *count) *count = COUNT;
  return error;
}

int cudaSetDevice(int device) {
  static int known;
  CHECK(device);
  if (known != getpid()) {
    char host[40];
    known = getpid();
    snprintf(host, sizeof host, "host-%d", known);
    setenv("NCCL_HOSTID", host, 1);
  }
  current = device;
  return REAL("cudaSetDevice", 0);
}

int cudaGetDevice(int *device) {
  int error = REAL("cudaGetDevice", device);
  if (!error) *device = current;
  return error;
}

int cudaInitDevice(int device, unsigned flags, unsigned more) {
  CHECK(device);
  current = device;
  return REAL("cudaInitDevice", 0, flags, more);
}

int cudaPointerGetAttributes(int *attributes, const void *pointer) { /* the second number is the device */
  int error = REAL("cudaPointerGetAttributes", attributes, pointer);
  if (!error && attributes[1] == 0) attributes[1] = current;
  return error;
}

int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t size, void *stream) {
  static int (*copy)(void *, const void *, size_t, int, void *);
  if (!copy) copy = in_runtime("cudaMemcpyAsync");
  return copy(to, from, size, DEVICE_TO_DEVICE, stream);
}

int cudaGetDeviceProperties(void *p, int device) { CHECK(device); return REAL("cudaGetDeviceProperties", p, 0); }
int cudaGetDeviceProperties_v2(void *p, int device) { CHECK(device); return REAL("cudaGetDeviceProperties_v2", p, 0); }
int cudaDeviceGetAttribute(int *v, int a, int device) { CHECK(device); return REAL("cudaDeviceGetAttribute", v, a, 0); }
int cudaDeviceGetPCIBusId(char *id, int n, int device) { CHECK(device); return REAL("cudaDeviceGetPCIBusId", id, n, 0); }
int cudaDeviceGetDefaultMemPool(void *p, int device) { CHECK(device); return REAL("cudaDeviceGetDefaultMemPool", p, 0); }
int cudaDeviceGetMemPool(void *p, int device) { CHECK(device); return REAL("cudaDeviceGetMemPool", p, 0); }
int cudaDeviceSetMemPool(int device, void *p) { CHECK(device); return REAL("cudaDeviceSetMemPool", 0, p); }
int cudaDeviceCanAccessPeer(int *can, int device, int peer) { CHECK(device); CHECK(peer); *can = 0; return 0; }
int cudaDeviceEnablePeerAccess(int peer, unsigned flags) { return 0; }

/* The driver and NVML, which torch asks by handles of its own. */

static int (*real_state)(int, unsigned *, int *), (*real_attribute)(int *, int, int), (*real_get)(int *, int);
static int (*real_retain)(void *, int);
static int state(int device, unsigned *flags, int *active) { return real_state(0, flags, active); }
static int attribute(int *value, int which, int device) { return real_attribute(value, which, 0); }
static int get(int *handle, int device) { return real_get(handle, 0); }
static int retain(void *context, int device) { return real_retain(context, 0); }
static int nvml_count(unsigned *count) { *count = COUNT; return 0; }

static void *wrapped(const char *name, void *function) {
  if (!function) return function;
  if (!strcmp(name, "cuDevicePrimaryCtxGetState")) { real_state = function; return state; }
  if (!strcmp(name, "cuDeviceGetAttribute")) { real_attribute = function; return attribute; }
  if (!strcmp(name, "cuDeviceGet")) { real_get = function; return get; }
  if (!strcmp(name, "cuDevicePrimaryCtxRetain")) { real_retain = function; return retain; }
  return function;
}

int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *status) {
  int error = REAL("cudaGetDriverEntryPoint", name, function, flags, status);
  if (!error) *function = wrapped(name, *function);
  return error;
}

int cudaGetDriverEntryPointByVersion(
    const char *name, void **function, unsigned version, unsigned long long flags, int *status) {
  int error = REAL("cudaGetDriverEntryPointByVersion", name, function, version, flags, status);
  if (!error) *function = wrapped(name, *function);
  return error;
}

void *dlsym(void *handle, const char *name) {
  Dl_info caller;
  if (!find) begin();
  void *function = find(handle, name);
  int driver = name && !strncmp(name, "cuDevice", 8), nvml = name && !strncmp(name, "nvmlDeviceGetCount", 18);
  if (!function || !(driver || nvml) || !dladdr(__builtin_return_address(0), &caller) || !caller.dli_fname)
    return function;
  if (nvml) return strstr(caller.dli_fname, "_ctypes") ? nvml_count : function;
  if (strstr(caller.dli_fname, "torch") || strstr(caller.dli_fname, "libc10") || strstr(caller.dli_fname, "libcaffe2"))
    return wrapped(name, function);
  return function;
}
