/* A fake of NVIDIA's management library: the real binding, nvidia-ml-py, runs on it unmodified.
 * `tests/support/fakes/nvml.py` builds it: cc -shared -fPIC -O1 -o libfakenvml.so nvml.c -lpthread
 * Own struct declarations (ABI only); no NVIDIA header is used.
 * Control plane: fake_* functions (ctypes) in the same process, FAKE_NVML_* env for subprocesses.
 * GPM model: a per-device set of rates; counters integrate rate*dt on a real or a virtual clock,
 * so nvmlGpmMetricsGet returns the exact time average between two samples. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>
#define EXPORT __attribute__((visibility("default")))
#define MAXDEV 16
#define MAXMIG 7
#define FIRST_MIG 1000 /* handles of instances begin here */
#define MAXFN 128
#define NMET 512
enum {
    OK = 0,
    UNINIT = 1,
    INVAL = 2,
    NOSUP = 3,
    NOPERM = 4,
    NOTFOUND = 6,
    SMALL = 7,
    DRVNOTLOADED = 9,
    TIMEOUT = 10,
    FNOTFOUND = 13,
    LOST = 15,
    VERMISMATCH = 25
};
typedef struct {
    double rate[NMET];
    double acc[NMET];
    double acc_t;
    int used;
    int gpm;
    double energy_mj;
    unsigned util_gpu, util_mem, power_mw, temp, sm_clk, mem_clk, max_sm, max_mem, bus_width,
        power_limit;
    unsigned long long mem_total, mem_used, mem_reserved, reasons;
    unsigned mig;
    unsigned ecc_corr, ecc_uncorr;
    unsigned arch, cc_major, cc_minor, cores;
    char name[96], uuid[80], bus[32];
    double pcie_tx, pcie_rx;
} fdev_t;
static fdev_t D[MAXDEV];
static fdev_t I[MAXDEV][MAXMIG];
static int metric_rc[NMET];
static int N = 1;
static int inited = 0;
static int init_rc = 0;
static pid_t init_pid;
static int fork_strict = 0;
static pthread_mutex_t M = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char fn[64];
    int rc;
    int delay_us;
    long calls;
    int left;
} F[MAXFN];
static int nF = 0;
static double vclock = -1.0;
static double now_s(void) {
    if (vclock >= 0)
        return vclock;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
static int slot(const char* fn) {
    for (int i = 0; i < nF; i++)
        if (!strcmp(F[i].fn, fn))
            return i;
    if (nF >= MAXFN)
        return 0;
    snprintf(F[nF].fn, 64, "%s", fn);
    F[nF].rc = 0;
    F[nF].delay_us = 0;
    F[nF].calls = 0;
    F[nF].left = -1;
    return nF++;
}
static int enter(const char* fn) {
    pthread_mutex_lock(&M);
    int s = slot(fn);
    F[s].calls++;
    int rc = 0;
    if (F[s].rc && F[s].left != 0) {
        rc = F[s].rc;
        if (F[s].left > 0)
            F[s].left--;
    }
    int d = F[s].delay_us;
    if (!rc && !inited && strncmp(fn, "nvmlInit", 8) && strcmp(fn, "nvmlErrorString"))
        rc = UNINIT;
    if (!rc && fork_strict && inited && getpid() != init_pid && strncmp(fn, "nvmlInit", 8))
        rc = UNINIT;
    pthread_mutex_unlock(&M);
    if (d)
        usleep(d);
    return rc;
}
#define ENTER(fn)           \
    do {                    \
        int _r = enter(fn); \
        if (_r)             \
            return _r;      \
    } while (0)
static void integrate(fdev_t* d) {
    double t = now_s();
    if (d->acc_t == 0)
        d->acc_t = t;
    double dt = t - d->acc_t;
    if (dt > 0) {
        for (int i = 0; i < NMET; i++)
            if (d->rate[i] != 0)
                d->acc[i] += d->rate[i] * dt;
        d->energy_mj += d->power_mw * dt;
        d->acc_t = t;
    }
}
static void whole(fdev_t* d, int i) {
    memset(d, 0, sizeof *d);
    d->used = 1;
    d->gpm = 1;
    d->arch = 9;
    d->cc_major = 9;
    d->cores = 16896;
    d->cc_minor = 0;
    snprintf(d->name, 96, "NVIDIA H200");
    snprintf(d->uuid, 80, "GPU-00000000-0000-0000-0000-%012d", i);
    snprintf(d->bus, 32, "00000000:%02X:00.0", i + 1);
    d->mem_total = 150754820096ULL;
    d->mem_used = 1073741824ULL;
    d->mem_reserved = 665190400ULL;
    d->power_mw = 75000;
    d->power_limit = 700000;
    d->temp = 30;
    d->sm_clk = 345;
    d->mem_clk = 3201;
    d->max_sm = 1980;
    d->max_mem = 3201;
    d->bus_width = 6144;
    d->reasons = 1;
    d->util_gpu = 0;
    d->util_mem = 0;
}
static void defaults(int i) {
    whole(&D[i], i);
    for (int j = 0; j < MAXMIG; j++) {
        fdev_t* d = &I[i][j];
        whole(d, i);
        d->mem_total /= 8;
        snprintf(d->name, 96, "NVIDIA H200 MIG 1g.18gb");
        snprintf(d->uuid, 80, "MIG-00000000-0000-0000-%04d-%012d", i, j);
    }
}
__attribute__((constructor)) static void ctor(void) {
    const char* e = getenv("FAKE_NVML_COUNT");
    N = e ? atoi(e) : 1;
    if (N < 0)
        N = 0;
    if (N > MAXDEV)
        N = MAXDEV;
    for (int i = 0; i < MAXDEV; i++) defaults(i);
    e = getenv("FAKE_NVML_INIT_RC");
    if (e)
        init_rc = atoi(e);
    e = getenv("FAKE_NVML_BUSY");
    if (e)
        for (int i = 0; i < MAXDEV; i++) {
            D[i].rate[1] = D[i].rate[2] = 90;
            D[i].rate[10] = atof(e);
            D[i].util_gpu = 100;
        }
    e = getenv("FAKE_NVML_GPM");
    if (e)
        for (int i = 0; i < MAXDEV; i++) D[i].gpm = atoi(e);
    e = getenv("FAKE_NVML_FORK_STRICT");
    if (e)
        fork_strict = atoi(e);
}
static fdev_t* dv(void* h) {
    long k = (long)(intptr_t)h - 1;
    if (k >= FIRST_MIG) {
        k -= FIRST_MIG;
        if (k >= MAXDEV * MAXMIG)
            return 0;
        return &I[k / MAXMIG][k % MAXMIG];
    }
    if (k < 0 || k >= N)
        return 0;
    return &D[k];
}
#define DEV(h)         \
    fdev_t* d = dv(h); \
    if (!d)            \
        return INVAL;
/* ---- control plane ---- */
EXPORT void fake_reset(int n) {
    pthread_mutex_lock(&M);
    N = n;
    for (int i = 0; i < MAXDEV; i++) defaults(i);
    nF = 0;
    vclock = -1;
    init_rc = 0;
    inited = 0;
    fork_strict = 0;
    memset(metric_rc, 0, sizeof metric_rc);
    pthread_mutex_unlock(&M);
}
static void move_clock(fdev_t* d, double from, double to) {
    if (from < 0) { /* until now the machine's own clock, which tells how long that has been up */
        d->acc_t = to;
        return;
    }
    vclock = from;
    integrate(d);
    vclock = to;
    if (from < 0 || d->acc_t > to) /* nothing is counted between the real clock and this one */
        d->acc_t = to;
    integrate(d);
}
EXPORT void fake_set_clock(double s) {
    pthread_mutex_lock(&M);
    double from = vclock;
    for (int i = 0; i < N; i++) {
        move_clock(&D[i], from, s);
        for (int j = 0; j < MAXMIG; j++)
            move_clock(&I[i][j], from, s);
    }
    vclock = s;
    pthread_mutex_unlock(&M);
}
EXPORT void fake_fork_strict(void) {
    fork_strict = 1;
}
EXPORT void fake_set_rate(int i, int metric, double r) {
    pthread_mutex_lock(&M);
    integrate(&D[i]);
    D[i].rate[metric] = r;
    pthread_mutex_unlock(&M);
}
EXPORT void fake_set_rc(const char* fn, int rc, int times) {
    pthread_mutex_lock(&M);
    int s = slot(fn);
    F[s].rc = rc;
    F[s].left = times;
    pthread_mutex_unlock(&M);
}
EXPORT void fake_set_delay_us(const char* fn, int us) {
    pthread_mutex_lock(&M);
    int s = slot(fn);
    F[s].delay_us = us;
    pthread_mutex_unlock(&M);
}
EXPORT long fake_calls(const char* fn) {
    pthread_mutex_lock(&M);
    long c = F[slot(fn)].calls;
    pthread_mutex_unlock(&M);
    return c;
}
EXPORT int fake_set(int i, const char* k, double v) {
    fdev_t* d = &D[i];
    pthread_mutex_lock(&M);
    integrate(d);
    int rc = 0;
#define K(n, f) else if (!strcmp(k, n)) d->f = v;
    if (0)
        ;
    K("util_gpu", util_gpu)
    K("util_mem", util_mem) K("power_mw", power_mw) K("temp", temp) K("sm_clk", sm_clk)
        K("mem_clk", mem_clk) K("max_mem", max_mem) K("bus_width", bus_width)
            K("mem_used", mem_used) K("reasons", reasons) K("gpm", gpm) K("mig", mig)
                K("ecc_uncorr", ecc_uncorr) K("ecc_corr", ecc_corr) K("arch", arch)
                    K("pcie_tx", pcie_tx) K("pcie_rx", pcie_rx) else rc = -1;
    pthread_mutex_unlock(&M);
    return rc;
}
EXPORT void fake_set_instance_rate(int i, int j, int metric, double r) {
    pthread_mutex_lock(&M);
    integrate(&I[i][j]);
    I[i][j].rate[metric] = r;
    pthread_mutex_unlock(&M);
}
EXPORT void fake_set_metric_rc(int metric, int rc) {
    pthread_mutex_lock(&M);
    metric_rc[metric] = rc;
    pthread_mutex_unlock(&M);
}
/* ---- lifecycle ---- */
EXPORT int nvmlInitWithFlags(unsigned f) {
    ENTER("nvmlInitWithFlags");
    if (init_rc)
        return init_rc;
    inited++;
    init_pid = getpid();
    return OK;
}
EXPORT int nvmlInit_v2(void) {
    return nvmlInitWithFlags(0);
}
EXPORT int nvmlShutdown(void) {
    ENTER("nvmlShutdown");
    if (inited > 0)
        inited--;
    return OK;
}
EXPORT const char* nvmlErrorString(int rc) {
    static char b[32];
    snprintf(b, 32, "fake rc %d", rc);
    return b;
}
EXPORT int nvmlSystemGetDriverVersion(char* v, unsigned n) {
    ENTER("nvmlSystemGetDriverVersion");
    snprintf(v, n, "580.159.04");
    return OK;
}
EXPORT int nvmlSystemGetNVMLVersion(char* v, unsigned n) {
    ENTER("nvmlSystemGetNVMLVersion");
    snprintf(v, n, "13.580.159.04");
    return OK;
}
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int* v) {
    ENTER("nvmlSystemGetCudaDriverVersion_v2");
    *v = 13000;
    return OK;
}
EXPORT int nvmlDeviceGetCount_v2(unsigned* c) {
    ENTER("nvmlDeviceGetCount_v2");
    *c = N;
    return OK;
}
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** h) {
    ENTER("nvmlDeviceGetHandleByIndex_v2");
    if ((int)i >= N)
        return INVAL;
    *h = (void*)(intptr_t)(i + 1);
    return OK;
}
EXPORT int nvmlDeviceGetHandleByUUID(const char* u, void** h) {
    ENTER("nvmlDeviceGetHandleByUUID");
    for (int i = 0; i < N; i++)
        if (!strcmp(u, D[i].uuid)) {
            *h = (void*)(intptr_t)(i + 1);
            return OK;
        }
    return NOTFOUND;
}
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* u, void** h) {
    ENTER("nvmlDeviceGetHandleByPciBusId_v2");
    for (int i = 0; i < N; i++)
        if (!strcasecmp(u, D[i].bus)) {
            *h = (void*)(intptr_t)(i + 1);
            return OK;
        }
    return NOTFOUND;
}
EXPORT int nvmlDeviceGetIndex(void* h, unsigned* i) {
    ENTER("nvmlDeviceGetIndex");
    DEV(h)* i = (unsigned)(d - D);
    return OK;
}
EXPORT int nvmlDeviceGetName(void* h, char* b, unsigned n) {
    ENTER("nvmlDeviceGetName");
    DEV(h) snprintf(b, n, "%s", d->name);
    return OK;
}
EXPORT int nvmlDeviceGetUUID(void* h, char* b, unsigned n) {
    ENTER("nvmlDeviceGetUUID");
    DEV(h) snprintf(b, n, "%s", d->uuid);
    return OK;
}
EXPORT int nvmlDeviceGetArchitecture(void* h, unsigned* a) {
    ENTER("nvmlDeviceGetArchitecture");
    DEV(h)* a = d->arch;
    return OK;
}
EXPORT int nvmlDeviceGetCudaComputeCapability(void* h, int* a, int* b) {
    ENTER("nvmlDeviceGetCudaComputeCapability");
    DEV(h)* a = d->cc_major;
    *b = d->cc_minor;
    return OK;
}
EXPORT int nvmlDeviceGetMigMode(void* h, unsigned* c, unsigned* p) {
    ENTER("nvmlDeviceGetMigMode");
    DEV(h)* c = *p = d->mig ? 1 : 0;
    return OK;
}
EXPORT int nvmlDeviceGetMaxMigDeviceCount(void* h, unsigned* c) {
    ENTER("nvmlDeviceGetMaxMigDeviceCount");
    DEV(h)* c = MAXMIG;
    return OK;
}
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void* h, unsigned j, void** m) {
    ENTER("nvmlDeviceGetMigDeviceHandleByIndex");
    DEV(h) if (j >= d->mig) return NOTFOUND;
    *m = (void*)(intptr_t)(1 + FIRST_MIG + (d - D) * MAXMIG + j);
    return OK;
}
/* ---- plain gauges ---- */
typedef struct {
    unsigned gpu, memory;
} util_t;
EXPORT int nvmlDeviceGetUtilizationRates(void* h, util_t* u) {
    ENTER("nvmlDeviceGetUtilizationRates");
    DEV(h) if (d->mig) return NOSUP;
    u->gpu = d->util_gpu;
    u->memory = d->util_mem;
    return OK;
}
typedef struct {
    unsigned long long total, free_, used;
} mem1_t;
typedef struct {
    unsigned version;
    unsigned long long total, reserved, free_, used;
} mem2_t;
EXPORT int nvmlDeviceGetMemoryInfo(void* h, mem1_t* m) {
    ENTER("nvmlDeviceGetMemoryInfo");
    DEV(h) m->total = d->mem_total;
    m->used = d->mem_used + d->mem_reserved;
    m->free_ = m->total - m->used;
    return OK;
}
EXPORT int nvmlDeviceGetMemoryInfo_v2(void* h, mem2_t* m) {
    ENTER("nvmlDeviceGetMemoryInfo_v2");
    DEV(h) if (m->version != (sizeof(mem2_t) | (2u << 24))) return VERMISMATCH;
    m->total = d->mem_total;
    m->reserved = d->mem_reserved;
    m->used = d->mem_used;
    m->free_ = m->total - m->used - m->reserved;
    return OK;
}
EXPORT int nvmlDeviceGetPowerUsage(void* h, unsigned* p) {
    ENTER("nvmlDeviceGetPowerUsage");
    DEV(h)* p = d->power_mw;
    return OK;
}
EXPORT int nvmlDeviceGetEnforcedPowerLimit(void* h, unsigned* p) {
    ENTER("nvmlDeviceGetEnforcedPowerLimit");
    DEV(h)* p = d->power_limit;
    return OK;
}
EXPORT int nvmlDeviceGetTotalEnergyConsumption(void* h, unsigned long long* e) {
    ENTER("nvmlDeviceGetTotalEnergyConsumption");
    DEV(h) pthread_mutex_lock(&M);
    integrate(d);
    *e = (unsigned long long)d->energy_mj;
    pthread_mutex_unlock(&M);
    return OK;
}
EXPORT int nvmlDeviceGetNumGpuCores(void* h, unsigned* c) {
    ENTER("nvmlDeviceGetNumGpuCores");
    DEV(h)* c = d->cores;
    return OK;
}
EXPORT int nvmlDeviceGetTemperature(void* h, unsigned s, unsigned* t) {
    ENTER("nvmlDeviceGetTemperature");
    DEV(h)* t = d->temp;
    return OK;
}
EXPORT int nvmlDeviceGetClockInfo(void* h, unsigned k, unsigned* c) {
    ENTER("nvmlDeviceGetClockInfo");
    DEV(h)* c = k == 2 ? d->mem_clk : d->sm_clk;
    return OK;
}
EXPORT int nvmlDeviceGetMaxClockInfo(void* h, unsigned k, unsigned* c) {
    ENTER("nvmlDeviceGetMaxClockInfo");
    DEV(h)* c = k == 2 ? d->max_mem : d->max_sm;
    return OK;
}
EXPORT int nvmlDeviceGetMemoryBusWidth(void* h, unsigned* w) {
    ENTER("nvmlDeviceGetMemoryBusWidth");
    DEV(h)* w = d->bus_width;
    return OK;
}
EXPORT int nvmlDeviceGetCurrentClocksEventReasons(void* h, unsigned long long* r) {
    ENTER("nvmlDeviceGetCurrentClocksEventReasons");
    DEV(h)* r = d->reasons;
    return OK;
}
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void* h, unsigned long long* r) {
    return nvmlDeviceGetCurrentClocksEventReasons(h, r);
}
EXPORT int nvmlDeviceGetPcieThroughput(void* h, unsigned c, unsigned* v) {
    ENTER("nvmlDeviceGetPcieThroughput");
    DEV(h) usleep(20000);
    *v = (unsigned)((c ? d->pcie_rx : d->pcie_tx) / 1024.0);
    return OK;
}
EXPORT int nvmlDeviceGetTotalEccErrors(void* h, unsigned t, unsigned k, unsigned long long* c) {
    ENTER("nvmlDeviceGetTotalEccErrors");
    DEV(h)* c = t == 1 ? d->ecc_uncorr : d->ecc_corr;
    return OK;
}
typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned valueType;
    int nvmlReturn;
    union {
        double d;
        unsigned ui;
        unsigned long ul;
        unsigned long long ull;
        long long sll;
    } value;
} fv_t;
EXPORT int nvmlDeviceGetFieldValues(void* h, int n, fv_t* v) {
    ENTER("nvmlDeviceGetFieldValues");
    DEV(h) pthread_mutex_lock(&M);
    integrate(d);
    for (int i = 0; i < n; i++) {
        v[i].nvmlReturn = OK;
        v[i].timestamp = (long long)(now_s() * 1e6);
        v[i].latencyUsec = 1;
        switch (v[i].fieldId) {
            case 83:
            case 191:
                v[i].valueType = 3;
                v[i].value.ull = (unsigned long long)d->energy_mj;
                break;
            case 82:
                v[i].valueType = 1;
                v[i].value.ui = d->temp + 5;
                break;
            case 185:
            case 186:
                v[i].valueType = 1;
                v[i].value.ui = d->power_mw;
                break;
            case 197:
                v[i].valueType = 1;
                v[i].value.ui = (unsigned)(unsigned long long)d->acc[500];
                break;
            case 198:
                v[i].valueType = 1;
                v[i].value.ui = (unsigned)(unsigned long long)d->acc[501];
                break;
            default:
                v[i].nvmlReturn = NOSUP;
        }
    }
    pthread_mutex_unlock(&M);
    return OK;
}
typedef struct {
    unsigned pid;
    unsigned long long ts;
    unsigned sm, mem, enc, dec;
} pu_t;
EXPORT int nvmlDeviceGetProcessUtilization(void* h, pu_t* p, unsigned* n,
                                           unsigned long long last) {
    ENTER("nvmlDeviceGetProcessUtilization");
    DEV(h) if (d->mig) return NOSUP;
    if (!d->util_gpu)
        return NOTFOUND;
    if (!p || *n < 1) {
        *n = 1;
        return SMALL;
    }
    p[0].pid = getpid();
    p[0].ts = (unsigned long long)(now_s() * 1e6);
    p[0].sm = d->util_gpu;
    p[0].mem = d->util_mem;
    p[0].enc = p[0].dec = 0;
    *n = 1;
    return OK;
}
/* ---- GPM ---- */
typedef struct {
    double t;
    int dev;
    int filled;
    double acc[NMET];
} smp_t;
typedef struct {
    unsigned metricId;
    int nvmlReturn;
    double value;
    struct {
        char *a, *b, *c;
    } info;
} gm_t;
typedef struct {
    unsigned version, numMetrics;
    smp_t *s1, *s2;
    gm_t m[1];
} gg_t;
typedef struct {
    unsigned version, isSupportedDevice;
} gs_t;
static long live_samples = 0;
EXPORT long fake_live_gpm_samples(void) {
    return live_samples;
}
EXPORT int nvmlGpmQueryDeviceSupport(void* h, gs_t* s) {
    ENTER("nvmlGpmQueryDeviceSupport");
    DEV(h) if (s->version != 1) return VERMISMATCH;
    s->isSupportedDevice = d->gpm ? 1 : 0;
    return OK;
}
EXPORT int nvmlGpmSampleAlloc(smp_t** s) {
    ENTER("nvmlGpmSampleAlloc");
    *s = calloc(1, sizeof(smp_t));
    live_samples++;
    return OK;
}
EXPORT int nvmlGpmSampleFree(smp_t* s) {
    ENTER("nvmlGpmSampleFree");
    if (!s)
        return INVAL;
    free(s);
    live_samples--;
    return OK;
}
EXPORT int nvmlGpmSampleGet(void* h, smp_t* s) {
    ENTER("nvmlGpmSampleGet");
    DEV(h) if (!s) return INVAL;
    if (!d->gpm)
        return NOSUP;
    pthread_mutex_lock(&M);
    integrate(d);
    s->t = d->acc_t;
    s->dev = (int)(d - D);
    s->filled = 1;
    memcpy(s->acc, d->acc, sizeof s->acc);
    pthread_mutex_unlock(&M);
    return OK;
}
EXPORT int nvmlGpmMigSampleGet(void* h, unsigned gi, smp_t* s) {
    ENTER("nvmlGpmMigSampleGet");
    return nvmlGpmSampleGet(h, s);
}
EXPORT int nvmlGpmMetricsGet(gg_t* g) {
    ENTER("nvmlGpmMetricsGet");
    if (g->version != 1)
        return VERMISMATCH;
    if (!g->s1 || !g->s2 || !g->s1->filled || !g->s2->filled)
        return INVAL;
    double dt = g->s2->t - g->s1->t;
    for (unsigned i = 0; i < g->numMetrics; i++) {
        unsigned id = g->m[i].metricId;
        if (id == 0 || id >= NMET || (id > 13 && id < 20)) {
            g->m[i].nvmlReturn = INVAL;
            continue;
        }
        if (metric_rc[id]) {
            g->m[i].nvmlReturn = metric_rc[id];
            continue;
        }
        g->m[i].nvmlReturn = OK;
        g->m[i].value = dt >= 0.1 - 1e-9 ? (g->s2->acc[id] - g->s1->acc[id]) / dt : NAN;
    }
    return OK;
}
/* ---- events (Xid) ---- */
typedef struct {
    void* device;
    unsigned long long type, data;
    unsigned gi, ci;
} ev_t;
static int xid_pending = 0;
static int xid_dev = 0;
EXPORT void fake_xid(int dev, int xid) {
    xid_dev = dev;
    xid_pending = xid;
}
EXPORT int nvmlEventSetCreate(void** s) {
    ENTER("nvmlEventSetCreate");
    *s = malloc(8);
    return OK;
}
EXPORT int nvmlEventSetFree(void* s) {
    ENTER("nvmlEventSetFree");
    free(s);
    return OK;
}
EXPORT int nvmlDeviceRegisterEvents(void* h, unsigned long long t, void* s) {
    ENTER("nvmlDeviceRegisterEvents");
    DEV(h) return OK;
}
EXPORT int nvmlEventSetWait_v2(void* s, ev_t* e, unsigned ms) {
    ENTER("nvmlEventSetWait_v2");
    for (unsigned i = 0; i <= ms; i++) {
        if (xid_pending) {
            e->device = (void*)(intptr_t)(xid_dev + 1);
            e->type = 8;
            e->data = xid_pending;
            e->gi = e->ci = 0xFFFFFFFF;
            xid_pending = 0;
            return OK;
        }
        usleep(1000);
    }
    return TIMEOUT;
}
