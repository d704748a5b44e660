/* libFuzzer's side of the target: starts Python once, then hands every input to `fuzz.target`.
 *
 * Promises: an exception out of Python is a finding like any other, so it ends in abort(), with its traceback before it.
 * Python's objects come from malloc and its hashes are not random, so that the sanitizers see every object and an input
 * does the same each time.
 *
 * The compiled rooms carry their own coverage counters. Those of the rooms that are plain Python (admission, rights,
 * accounts) are kept here, line by line, or the fuzzer would be blind to them.
 *
 * PYTHON, SEARCH_PATH and PACKAGE come from build.py.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LINES 16384

__attribute__((section("__libfuzzer_extra_counters"))) static uint8_t line_counters[LINES];
static PyObject *run;

/* What an interpreter still holds when it is killed is no leak of ours. */
const char *__asan_default_options(void) { return "detect_leaks=0:handle_abort=1"; }
const char *__ubsan_default_options(void) { return "print_stacktrace=1:halt_on_error=1"; }

static void fail(void)
{
    PyErr_Print();
    fflush(stderr);
    abort();
}

static int on_line(PyObject *self, PyFrameObject *frame, int what, PyObject *argument)
{
    PyCodeObject *code;
    const char *name;
    (void)self;
    (void)argument;
    if (what != PyTrace_LINE)
        return 0;
    code = PyFrame_GetCode(frame);
    name = PyUnicode_AsUTF8(code->co_filename);
    if (name != NULL && strncmp(name, PACKAGE, sizeof(PACKAGE) - 1) == 0) {
        size_t place = (size_t)PyObject_Hash(code->co_filename) + 31u * (size_t)PyFrame_GetLineNumber(frame);
        line_counters[place % LINES]++;
    }
    Py_DECREF(code);
    return 0;
}

static void start_python(void)
{
    PyPreConfig before;
    PyConfig config;
    PyStatus status;
    setenv("PYTHONPATH", SEARCH_PATH, 1);
    PyPreConfig_InitPythonConfig(&before);
    before.allocator = PYMEM_ALLOCATOR_MALLOC;
    status = Py_PreInitialize(&before);
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);
    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0;
    config.write_bytecode = 0;
    config.use_hash_seed = 1;
    config.hash_seed = 0;
    status = PyConfig_SetBytesString(&config, &config.program_name, PYTHON);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);
    PyConfig_Clear(&config);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    PyObject *target;
    (void)argc;
    (void)argv;
    start_python();
    target = PyImport_ImportModule("fuzz.target");
    if (target == NULL || (run = PyObject_CallMethod(target, "with_door", NULL)) == NULL)
        fail();
    Py_DECREF(target);
    PyEval_SetTrace(on_line, NULL);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    PyObject *done = PyObject_CallFunction(run, "y#", (const char *)data, (Py_ssize_t)size);
    if (done == NULL)
        fail();
    Py_DECREF(done);
    return 0;
}
