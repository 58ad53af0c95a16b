/* The kernels of kernels.py that start up NumPy most often, as plain loops.
 *
 * Optional: without a compiler the package installs and works without this file. Results equal
 * those of kernels.py bit for bit; tests/engine/test_kernels.py compares the two. Integers wrap,
 * divisions of integers truncate toward zero.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>

#define MOST_RESOURCES 64

/* One matrix int64[resource, node]; nodes are adjacent, resources may be further apart. */
typedef struct {
    Py_buffer buffer;
    const char *start;
    Py_ssize_t resources, nodes, step;
} Matrix;

/* Aligned and in the byte order of this machine; NumPy says otherwise in front of the type. */
static int
holds_int64(const Py_buffer *buffer)
{
    const char *format = buffer->format;
    return buffer->itemsize == 8 && format != NULL && (format[0] == 'l' || format[0] == 'q');
}

static int
open_matrix(PyObject *object, Matrix *matrix)
{
    Py_buffer *buffer = &matrix->buffer;
    if (PyObject_GetBuffer(object, buffer, PyBUF_STRIDED_RO | PyBUF_FORMAT) < 0) {
        return -1;
    }
    if (buffer->ndim != 2 || !holds_int64(buffer) ||
        (buffer->shape[1] > 1 && buffer->strides[1] != 8)) {
        PyBuffer_Release(buffer);
        PyErr_SetString(PyExc_TypeError, "int64[resource, node] with adjacent nodes is expected");
        return -1;
    }
    matrix->start = buffer->buf;
    matrix->resources = buffer->shape[0];
    matrix->nodes = buffer->shape[1];
    matrix->step = buffer->strides[0];
    return 0;
}

static inline int64_t
amount(const Matrix *matrix, Py_ssize_t resource, Py_ssize_t node)
{
    return ((const int64_t *)(matrix->start + resource * matrix->step))[node];
}

static inline int64_t
add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t
subtract(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static inline int64_t
multiply(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static inline int64_t
divide(int64_t a, int64_t b)
{
    /* The one quotient that is no int64 wraps. */
    return b == -1 ? subtract(0, a) : a / b;
}

/* What all functions here are given. */
typedef struct {
    Matrix allocatable, allocated;
    int64_t wanted[MOST_RESOURCES];
} Question;

static void
close_question(Question *question)
{
    PyBuffer_Release(&question->allocatable.buffer);
    PyBuffer_Release(&question->allocated.buffer);
}

static int
read_numbers(PyObject *numbers, int64_t *found, Py_ssize_t expected)
{
    if (!PyList_Check(numbers) || PyList_GET_SIZE(numbers) != expected) {
        PyErr_SetString(PyExc_TypeError, "a list with a number per resource is expected");
        return -1;
    }
    for (Py_ssize_t i = 0; i < expected; i++) {
        found[i] = PyLong_AsLongLong(PyList_GET_ITEM(numbers, i));
        if (found[i] == -1 && PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

static int
open_question(PyObject *const *args, Question *question)
{
    if (open_matrix(args[0], &question->allocatable) < 0) {
        return -1;
    }
    if (open_matrix(args[1], &question->allocated) < 0) {
        PyBuffer_Release(&question->allocatable.buffer);
        return -1;
    }
    const Matrix *there = &question->allocatable, *taken = &question->allocated;
    if (there->resources != taken->resources || there->nodes != taken->nodes ||
        there->resources > MOST_RESOURCES) {
        PyErr_SetString(PyExc_ValueError, "matrices of one shape are expected, and not too high");
    }
    else if (read_numbers(args[2], question->wanted, there->resources) == 0) {
        return 0;
    }
    close_question(question);
    return -1;
}

static int
check_count(Py_ssize_t given, Py_ssize_t expected)
{
    if (given != expected) {
        PyErr_Format(PyExc_TypeError, "%zd arguments are expected", expected);
        return -1;
    }
    return 0;
}

/* The scores go into an array of the caller's. */
static int
open_scores(PyObject *object, Py_ssize_t nodes, Py_buffer *scores)
{
    if (PyObject_GetBuffer(object, scores, PyBUF_CONTIG | PyBUF_FORMAT) < 0) {
        return -1;
    }
    if (!holds_int64(scores) || scores->len != nodes * 8) {
        PyBuffer_Release(scores);
        PyErr_SetString(PyExc_ValueError, "an int64 per node is expected");
        return -1;
    }
    return 0;
}

static PyObject *
is_lacking(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Question question;
    if (check_count(count, 3) < 0 || open_question(args, &question) < 0) {
        return NULL;
    }
    const Matrix *there = &question.allocatable, *taken = &question.allocated;
    int lacking = 0;
    for (Py_ssize_t r = 0; r < there->resources && !lacking; r++) {
        for (Py_ssize_t n = 0; n < there->nodes; n++) {
            lacking |= subtract(amount(there, r, n), amount(taken, r, n)) < question.wanted[r];
        }
    }
    close_question(&question);
    return PyBool_FromLong(lacking);
}

static PyObject *
least_allocated(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Question question;
    Py_buffer scores;
    int64_t weights[MOST_RESOURCES];
    if (check_count(count, 5) < 0 || open_question(args, &question) < 0) {
        return NULL;
    }
    const Matrix *there = &question.allocatable, *taken = &question.allocated;
    if (read_numbers(args[3], weights, there->resources) < 0 ||
        open_scores(args[4], there->nodes, &scores) < 0) {
        close_question(&question);
        return NULL;
    }
    for (Py_ssize_t n = 0; n < there->nodes; n++) {
        int64_t total = 0, weight = 0;
        for (Py_ssize_t r = 0; r < there->resources; r++) {
            int64_t all = amount(there, r, n);
            if (all == 0) {
                continue;
            }
            int64_t left = subtract(subtract(all, amount(taken, r, n)), question.wanted[r]);
            if (left > 0) {
                /* Sums that wrapped would give shares out of range. */
                int64_t share = divide(multiply(left, 100), all);
                share = share < 0 ? 0 : share > 100 ? 100 : share;
                total = add(total, multiply(share, weights[r]));
            }
            weight = add(weight, weights[r]);
        }
        ((int64_t *)scores.buf)[n] = divide(total, weight > 1 ? weight : 1);
    }
    PyBuffer_Release(&scores);
    close_question(&question);
    Py_RETURN_NONE;
}

static inline double
fraction(double share)
{
    return share < 0.0 ? 0.0 : share < 1.0 ? share : 1.0;
}

/* 100 × (1 - standard deviation), truncated, in the order of operations of the reference. */
static inline int64_t
balance(const double *fractions, int number)
{
    double deviation = 0.0;
    if (number == 2) {
        deviation = fabs((fractions[0] - fractions[1]) / 2);
    }
    else if (number > 2) {
        double mean = 0.0, squares = 0.0;
        for (int i = 0; i < number; i++) {
            mean += fractions[i];
        }
        mean /= number;
        for (int i = 0; i < number; i++) {
            double distance = fractions[i] - mean;
            squares += distance * distance;
        }
        deviation = sqrt(squares / number);
    }
    return (int64_t)((1.0 - deviation) * 100.0);
}

static PyObject *
balance_change(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Question question;
    Py_buffer scores;
    if (check_count(count, 4) < 0 || open_question(args, &question) < 0) {
        return NULL;
    }
    const Matrix *there = &question.allocatable, *taken = &question.allocated;
    if (open_scores(args[3], there->nodes, &scores) < 0) {
        close_question(&question);
        return NULL;
    }
    double before[MOST_RESOURCES], after[MOST_RESOURCES];
    for (Py_ssize_t n = 0; n < there->nodes; n++) {
        int number = 0;
        for (Py_ssize_t r = 0; r < there->resources; r++) {
            int64_t all = amount(there, r, n), used = amount(taken, r, n);
            if (all == 0) {
                continue;
            }
            before[number] = fraction((double)used / (double)all);
            after[number] = fraction((double)add(used, question.wanted[r]) / (double)all);
            number++;
        }
        ((int64_t *)scores.buf)[n] = balance(after, number) - balance(before, number);
    }
    PyBuffer_Release(&scores);
    close_question(&question);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"is_lacking", (PyCFunction)(void (*)(void))is_lacking, METH_FASTCALL,
     "is_lacking(allocatable, allocated, wanted): less is left of something on some node."},
    {"least_allocated", (PyCFunction)(void (*)(void))least_allocated, METH_FASTCALL,
     "least_allocated(allocatable, allocated, wanted, weights, scores)"},
    {"balance_change", (PyCFunction)(void (*)(void))balance_change, METH_FASTCALL,
     "balance_change(allocatable, allocated, wanted, scores)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "kubesched.framework.engine._compiled", NULL, 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__compiled(void)
{
    return PyModuleDef_Init(&module);
}
