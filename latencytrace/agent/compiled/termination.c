/* SIGTERM, noticed wherever the program is. Python runs a handler once its main thread is between two steps: not
 * while a call in C computes, and not while one blocks that the signal came just before. So a thread without Python
 * waits for the signal beside Python's handler, has the last spans sent, and ends the process. */
#include "core.h"

#ifdef __linux__
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

/* A call in C may keep the interpreter for hours: if it is not had in so long, and so much was computed meanwhile, the
 * spans are lost. Where nothing computes, the machine is busy with others, and it is waited for longer. */
#define WAIT_S 0.01
#define KEPT_S 0.5
#define COMPUTED_NS 200000000

static PyObject *send_last;
static double longest_s;
static pid_t watched; /* the process that the thread is of: a forked child has none */
static volatile sig_atomic_t has_come;
static sem_t arrived, begun, sent;
static struct sigaction pythons; /* what has Python run its handler */
static int knows_pythons;

static void take_default(void) {
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigaction(SIGTERM, &by_default, NULL);
}

static void on_sigterm(int number) {
    int error = errno;
    if (getpid() != watched) {
        take_default();
        kill(getpid(), number); /* comes once this has returned */
    } else {
        if (!has_come) {
            has_come = 1;
            sem_post(&arrived);
        }
        pythons.sa_handler(number);
    }
    errno = error;
}

static int came(sem_t *semaphore, double within_s) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    int64_t until_ns = until.tv_nsec + (int64_t)(within_s * 1e9);
    until.tv_sec += until_ns / 1000000000;
    until.tv_nsec = until_ns % 1000000000;
    int failed;
    while ((failed = sem_timedwait(semaphore, &until)) < 0 && errno == EINTR) continue;
    return !failed;
}

static void *sender(void *Py_UNUSED(nothing)) {
    PyGILState_STATE state = PyGILState_Ensure();
    sem_post(&begun);
    PyObject *done = PyObject_CallNoArgs(send_last);
    if (!done) PyErr_Clear();
    Py_XDECREF(done);
    PyGILState_Release(state);
    sem_post(&sent);
    return NULL;
}

static int64_t computed_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int has_begun(void) {
    int64_t before_ns = computed_ns();
    for (double waited_s = 0; waited_s < longest_s; waited_s += WAIT_S) {
        if (came(&begun, WAIT_S)) return 1;
        if (waited_s >= KEPT_S && computed_ns() - before_ns >= COMPUTED_NS) return 0;
    }
    return 0;
}

static void *watcher(void *Py_UNUSED(nothing)) {
    while (sem_wait(&arrived) < 0) continue;
    pthread_t thread;
    if (!pthread_create(&thread, NULL, sender, NULL) && has_begun()) came(&sent, longest_s);
    take_default();
    kill(getpid(), SIGTERM); /* for the program's threads: one that blocks it meanwhile finishes something first */
    return NULL;
}

/* Begin a thread that no signal comes to; 0: there is one in this process. */
static int begin_watcher(void) {
    if (watched == getpid()) return 0;
    has_come = 0;
    if (sem_init(&arrived, 0, 0) || sem_init(&begun, 0, 0) || sem_init(&sent, 0, 0)) return -1;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, watcher, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) return -1;
    pthread_detach(thread);
    watched = getpid();
    return 0;
}

/* Come before what has Python run its handler; 0: that cannot be. A library in C that has taken the signal keeps it. */
static int take(void) {
    struct sigaction now, ours = {.sa_handler = on_sigterm, .sa_flags = SA_RESTART | SA_ONSTACK};
    if (sigaction(SIGTERM, NULL, &now) < 0) return 0;
    return now.sa_handler != pythons.sa_handler || sigaction(SIGTERM, &ours, NULL) == 0;
}

static PyObject *watch_sigterm(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *send;
    double longest;
    if (!PyArg_ParseTuple(args, "Od", &send, &longest)) return NULL;
    struct sigaction now;
    if (sigaction(SIGTERM, NULL, &now) < 0 || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) Py_RETURN_FALSE;
    Py_XSETREF(send_last, Py_NewRef(send));
    longest_s = longest;
    if (begin_watcher() < 0) Py_RETURN_FALSE;
    if (!knows_pythons) pythons = now;
    knows_pythons = 1;
    return PyBool_FromLong(take());
}

static PyObject *keep_sigterm(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    return PyBool_FromLong(knows_pythons && take());
}

static PyObject *has_sigterm_come(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    return PyBool_FromLong(has_come && watched == getpid());
}
#else
static PyObject *watch_sigterm(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args)) { Py_RETURN_FALSE; }
static PyObject *keep_sigterm(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) { Py_RETURN_FALSE; }
static PyObject *has_sigterm_come(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) { Py_RETURN_FALSE; }
#endif

static PyMethodDef functions[] = {
    {"watch_sigterm", watch_sigterm, METH_VARARGS,
     "Have a function send the last spans, for so many seconds at most, at a SIGTERM that Python has a handler of; "
     "then end. Return whether that can be."},
    {"keep_sigterm", keep_sigterm, METH_NOARGS,
     "Notice it again, where the program took it meanwhile and gave it back. Return whether that can be."},
    {"has_sigterm_come", has_sigterm_come, METH_NOARGS, "Tell whether it came, and the function is called, or will be."},
    {NULL, NULL, 0, NULL}};

int termination_ready(PyObject *module) { return PyModule_AddFunctions(module, functions); }
