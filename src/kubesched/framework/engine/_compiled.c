/* Kernels of kernels.py as plain loops: those that start up NumPy most often or pass an array often.
 *
 * Optional: without a compiler the package installs and works without this file. Results equal
 * those of kernels.py bit for bit; tests/engine/test_kernels.py compares the two. Integers wrap,
 * divisions of integers truncate toward zero.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

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

/* A score of one node. */
typedef int64_t (*Rule)(const Question *question, const int64_t *weights, Py_ssize_t node);

#define FEW_RESOURCES 4
#define SLOTS 1024 /* a power of two */
#define SLOT_BITS 10

/* The scores of totals that occurred before. Nodes of one type have few different totals. */
typedef struct {
    int64_t totals[SLOTS * 2 * FEW_RESOURCES]; /* per slot: allocatable, allocated, ... */
    int64_t scores[SLOTS];
    uint8_t is_used[SLOTS];
} Scored;

/* Inlined with a constant number of resources, so that the loops over them are unrolled. */
static inline void
score_by_totals(const Question *question, const int64_t *weights, Rule rule, int64_t *scores,
                const int resources)
{
    const Matrix *there = &question->allocatable, *taken = &question->allocated;
    Scored scored;
    memset(scored.is_used, 0, sizeof(scored.is_used));
    for (Py_ssize_t n = 0; n < there->nodes; n++) {
        int64_t totals[2 * FEW_RESOURCES];
        uint64_t mixed = 0, different = 0;
        for (int r = 0; r < resources; r++) {
            totals[2 * r] = amount(there, r, n);
            totals[2 * r + 1] = amount(taken, r, n);
            mixed += (uint64_t)totals[2 * r] ^ ((uint64_t)totals[2 * r + 1] << 1);
            mixed *= 0x9E3779B97F4A7C15u;
        }
        size_t slot = (size_t)(mixed >> (64 - SLOT_BITS));
        int64_t *known = scored.totals + slot * 2 * (size_t)resources;
        for (int i = 0; i < 2 * resources; i++) {
            different |= (uint64_t)(known[i] ^ totals[i]);
        }
        if (different || !scored.is_used[slot]) {
            memcpy(known, totals, sizeof(totals[0]) * 2 * (size_t)resources);
            scored.is_used[slot] = 1;
            scored.scores[slot] = rule(question, weights, n);
        }
        scores[n] = scored.scores[slot];
    }
}

static void
score_nodes(const Question *question, const int64_t *weights, Rule rule, int64_t *scores)
{
    switch (question->allocatable.resources) {
    case 1:
        score_by_totals(question, weights, rule, scores, 1);
        break;
    case 2:
        score_by_totals(question, weights, rule, scores, 2);
        break;
    case 3:
        score_by_totals(question, weights, rule, scores, 3);
        break;
    case 4:
        score_by_totals(question, weights, rule, scores, 4);
        break;
    default:
        for (Py_ssize_t n = 0; n < question->allocatable.nodes; n++) {
            scores[n] = rule(question, weights, n);
        }
    }
}

static int64_t
least_allocated_of(const Question *question, const int64_t *weights, Py_ssize_t node)
{
    const Matrix *there = &question->allocatable, *taken = &question->allocated;
    int64_t total = 0, weight = 0;
    for (Py_ssize_t r = 0; r < there->resources; r++) {
        int64_t all = amount(there, r, node);
        if (all == 0) {
            continue;
        }
        int64_t left = subtract(subtract(all, amount(taken, r, node)), question->wanted[r]);
        if (left > 0) {
            /* Sums that wrapped would give shares out of range. */
            int64_t share = divide(multiply(left, 100), all);
            share = share < 0 ? 0 : share > 100 ? 100 : share;
            total = add(total, multiply(share, weights[r]));
        }
        weight = add(weight, weights[r]);
    }
    return divide(total, weight > 1 ? weight : 1);
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
    if (read_numbers(args[3], weights, question.allocatable.resources) < 0 ||
        open_scores(args[4], question.allocatable.nodes, &scores) < 0) {
        close_question(&question);
        return NULL;
    }
    score_nodes(&question, weights, least_allocated_of, scores.buf);
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

static int64_t
balance_change_of(const Question *question, const int64_t *Py_UNUSED(weights), Py_ssize_t node)
{
    const Matrix *there = &question->allocatable, *taken = &question->allocated;
    double before[MOST_RESOURCES], after[MOST_RESOURCES];
    int number = 0;
    for (Py_ssize_t r = 0; r < there->resources; r++) {
        int64_t all = amount(there, r, node), used = amount(taken, r, node);
        if (all == 0) {
            continue;
        }
        before[number] = fraction((double)used / (double)all);
        after[number] = fraction((double)add(used, question->wanted[r]) / (double)all);
        number++;
    }
    return balance(after, number) - balance(before, number);
}

static PyObject *
balance_change(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Question question;
    Py_buffer scores;
    if (check_count(count, 4) < 0 || open_question(args, &question) < 0) {
        return NULL;
    }
    if (open_scores(args[3], question.allocatable.nodes, &scores) < 0) {
        close_question(&question);
        return NULL;
    }
    score_nodes(&question, NULL, balance_change_of, scores.buf);
    PyBuffer_Release(&scores);
    close_question(&question);
    Py_RETURN_NONE;
}

/* One contiguous column of some type. */
static int
open_column(PyObject *object, char type, Py_buffer *column)
{
    if (PyObject_GetBuffer(object, column, PyBUF_CONTIG_RO | PyBUF_FORMAT) < 0) {
        return -1;
    }
    int fits = type == 'q' ? holds_int64(column)
                           : column->format != NULL && column->format[0] == type;
    if (column->ndim != 1 || !fits) {
        PyBuffer_Release(column);
        PyErr_SetString(PyExc_TypeError, "a column of another type is expected");
        return -1;
    }
    return 0;
}

static PyObject *
true_place(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_buffer mask;
    if (check_count(count, 2) < 0) {
        return NULL;
    }
    Py_ssize_t skipped = PyLong_AsSsize_t(args[1]);
    if (PyErr_Occurred() || open_column(args[0], '?', &mask) < 0) {
        return NULL;
    }
    const uint8_t *holds = mask.buf;
    Py_ssize_t length = mask.shape[0], place = 0;
    /* Eight at a time: a product adds up the bytes of a word in its highest byte. */
    for (; place + 8 <= length; place += 8) {
        uint64_t word;
        memcpy(&word, holds + place, sizeof(word));
        Py_ssize_t number = (Py_ssize_t)((word * 0x0101010101010101u) >> 56);
        if (number > skipped) {
            break;
        }
        skipped -= number;
    }
    while (place < length && (!holds[place] || skipped-- > 0)) {
        place++;
    }
    PyBuffer_Release(&mask);
    return PyLong_FromSsize_t(place < length ? place : -1);
}

static PyObject *
look_up(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_buffer table, values, found;
    if (check_count(count, 4) < 0) {
        return NULL;
    }
    int64_t lowest = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred() || open_column(args[0], 'q', &table) < 0) {
        return NULL;
    }
    if (open_column(args[1], 'q', &values) < 0) {
        PyBuffer_Release(&table);
        return NULL;
    }
    int is_inside = -1;
    if (open_scores(args[3], values.shape[0], &found) == 0) {
        const int64_t *entries = table.buf, *places = values.buf;
        int64_t *results = found.buf;
        uint64_t size = (uint64_t)table.shape[0];
        is_inside = 1;
        for (Py_ssize_t i = 0; i < values.shape[0]; i++) {
            uint64_t place = (uint64_t)places[i] - (uint64_t)lowest;
            if (place >= size) {
                is_inside = 0;
                break;
            }
            results[i] = entries[place];
        }
        PyBuffer_Release(&found);
    }
    PyBuffer_Release(&values);
    PyBuffer_Release(&table);
    if (is_inside == 0) {
        PyErr_SetString(PyExc_IndexError, "a value is outside the table");
    }
    if (is_inside != 1) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
add_weighted(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_buffer total, scores;
    if (check_count(count, 4) < 0) {
        return NULL;
    }
    int64_t weight = PyLong_AsLongLong(args[2]), most = PyLong_AsLongLong(args[3]);
    if (PyErr_Occurred() || open_column(args[1], 'q', &scores) < 0) {
        return NULL;
    }
    if (open_scores(args[0], scores.shape[0], &total) < 0) {
        PyBuffer_Release(&scores);
        return NULL;
    }
    int64_t *sums = total.buf, outside = 0;
    const int64_t *added = scores.buf;
    for (Py_ssize_t i = 0; i < scores.shape[0]; i++) {
        int64_t score = added[i];
        outside |= score | subtract(most, score); /* negative if the score is out of range */
        sums[i] = add(sums[i], multiply(score, weight));
    }
    PyBuffer_Release(&total);
    PyBuffer_Release(&scores);
    return PyBool_FromLong(outside >= 0);
}

static PyMethodDef methods[] = {
    {"is_lacking", (PyCFunction)(void (*)(void))is_lacking, METH_FASTCALL,
     "is_lacking(allocatable, allocated, wanted): less is left of something on some node."},
    {"least_allocated", (PyCFunction)(void (*)(void))least_allocated, METH_FASTCALL,
     "least_allocated(allocatable, allocated, wanted, weights, scores)"},
    {"balance_change", (PyCFunction)(void (*)(void))balance_change, METH_FASTCALL,
     "balance_change(allocatable, allocated, wanted, scores)"},
    {"true_place", (PyCFunction)(void (*)(void))true_place, METH_FASTCALL,
     "true_place(mask, skipped): the place of the true value after so many others, or -1."},
    {"look_up", (PyCFunction)(void (*)(void))look_up, METH_FASTCALL,
     "look_up(table, values, lowest, found): found[i] = table[values[i] - lowest]"},
    {"add_weighted", (PyCFunction)(void (*)(void))add_weighted, METH_FASTCALL,
     "add_weighted(total, scores, weight, most): whether all scores are in 0..most."},
    {NULL, NULL, 0, NULL},
};

static int
add_constants(PyObject *loops)
{
    return PyModule_AddIntConstant(loops, "REVISION", 1); /* as in kernels.py */
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)add_constants},
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "kubesched.framework.engine._compiled", NULL, 0, methods,
    slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__compiled(void)
{
    return PyModuleDef_Init(&module);
}
