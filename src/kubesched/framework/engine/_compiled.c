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

/* Loops that are built twice where that is possible: for any x86-64, and for one with AVX2. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

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

static inline const int64_t *
column(const Matrix *matrix, Py_ssize_t resource)
{
    return (const int64_t *)(matrix->start + resource * matrix->step);
}

static inline int64_t
amount(const Matrix *matrix, Py_ssize_t resource, Py_ssize_t node)
{
    return column(matrix, resource)[node];
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

WIDE static int64_t
any_lacking(const int64_t *there, const int64_t *taken, int64_t wanted, Py_ssize_t nodes)
{
    int64_t lacking = 0;
    for (Py_ssize_t n = 0; n < nodes; n++) {
        lacking |= subtract(there[n], taken[n]) < wanted ? -1 : 0;
    }
    return lacking;
}

static PyObject *
is_lacking(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Question question;
    if (check_count(count, 3) < 0 || open_question(args, &question) < 0) {
        return NULL;
    }
    const Matrix *there = &question.allocatable, *taken = &question.allocated;
    int64_t lacking = 0;
    for (Py_ssize_t r = 0; r < there->resources && !lacking; r++) {
        lacking = any_lacking(column(there, r), column(taken, r), question.wanted[r], there->nodes);
    }
    close_question(&question);
    return PyBool_FromLong(lacking != 0);
}

/* Scores of usual amounts: so many nodes at once, in loops that become vector instructions.
 *
 * Amounts below 2^46 are exact as doubles, and so are a hundred times an amount and sums of a few.
 * A quotient of such numbers never rounds up to an integer that it does not reach: it is below that
 * integer by at least one part in 2^53. So truncating it gives the quotient of integers.
 */
#define BLOCK 128
#define AMOUNT_BITS 46
#define MOST_WEIGHT 32767

/* The number below 2^52, without an instruction that most processors lack for vectors. */
static inline double
as_double(int64_t number)
{
    uint64_t bits = (uint64_t)number | 0x4330000000000000u;
    double shifted;
    memcpy(&shifted, &bits, sizeof(shifted));
    return shifted - 4503599627370496.0;
}

/* Whether amounts are usual in a block: none is negative or large, and of none there is 0. */
WIDE static int
are_usual(const int64_t *there, const int64_t *taken, Py_ssize_t nodes)
{
    uint64_t bits = 0, lacking = 0;
    for (Py_ssize_t n = 0; n < nodes; n++) {
        bits |= (uint64_t)there[n] | (uint64_t)taken[n];
        lacking |= (uint64_t)there[n] - 1; /* negative for 0 */
    }
    return !(bits >> AMOUNT_BITS) && !(lacking >> 63);
}

static int
is_usual_block(const Question *question, Py_ssize_t first, Py_ssize_t nodes)
{
    const Matrix *there = &question->allocatable, *taken = &question->allocated;
    for (Py_ssize_t r = 0; r < there->resources; r++) {
        if (!are_usual(column(there, r) + first, column(taken, r) + first, nodes)) {
            return 0;
        }
    }
    return 1;
}

static int
are_below(const int64_t *numbers, Py_ssize_t count, int64_t bound)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (numbers[i] < 0 || numbers[i] >= bound) {
            return 0;
        }
    }
    return 1;
}

WIDE static void
add_free_shares(const int64_t *there, const int64_t *taken, double wanted, double weight,
                double *restrict total, Py_ssize_t nodes)
{
    for (Py_ssize_t n = 0; n < nodes; n++) {
        double all = as_double(there[n]), left = all - as_double(taken[n]) - wanted;
        left = left > 0.0 ? left : 0.0;
        total[n] += (double)(int32_t)(left * 100.0 / all) * weight;
    }
}

WIDE static void
divide_totals(const double *total, double weight, int64_t *restrict scores, Py_ssize_t nodes)
{
    for (Py_ssize_t n = 0; n < nodes; n++) {
        scores[n] = (int32_t)(total[n] / weight);
    }
}

static void
least_allocated_block(const Question *question, const int64_t *weights, Py_ssize_t first,
                      Py_ssize_t nodes, int64_t *scores)
{
    double total[BLOCK] = {0.0}, weight = 0.0;
    for (Py_ssize_t r = 0; r < question->allocatable.resources; r++) {
        add_free_shares(column(&question->allocatable, r) + first,
                        column(&question->allocated, r) + first, (double)question->wanted[r],
                        (double)weights[r], total, nodes);
        weight += (double)weights[r];
    }
    divide_totals(total, weight > 1.0 ? weight : 1.0, scores, nodes);
}

/* Without the order of operations of `balance_change_of`, results would differ in the last digit. */
WIDE static void
balance_of_two(const int64_t *there1, const int64_t *taken1, double wanted1, const int64_t *there2,
               const int64_t *taken2, double wanted2, int64_t *restrict scores, Py_ssize_t nodes)
{
    for (Py_ssize_t n = 0; n < nodes; n++) {
        double all1 = as_double(there1[n]), used1 = as_double(taken1[n]);
        double all2 = as_double(there2[n]), used2 = as_double(taken2[n]);
        double before1 = used1 / all1, before2 = used2 / all2;
        double after1 = (used1 + wanted1) / all1, after2 = (used2 + wanted2) / all2;
        before1 = before1 < 1.0 ? before1 : 1.0;
        before2 = before2 < 1.0 ? before2 : 1.0;
        after1 = after1 < 1.0 ? after1 : 1.0;
        after2 = after2 < 1.0 ? after2 : 1.0;
        int32_t before = (int32_t)((1.0 - fabs((before1 - before2) / 2)) * 100.0);
        int32_t after = (int32_t)((1.0 - fabs((after1 - after2) / 2)) * 100.0);
        scores[n] = after - before;
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
    const Py_ssize_t nodes = question.allocatable.nodes;
    const int usual = are_below(question.wanted, question.allocatable.resources, (int64_t)1 << AMOUNT_BITS) &&
                      are_below(weights, question.allocatable.resources, MOST_WEIGHT + 1);
    int64_t *results = scores.buf;
    for (Py_ssize_t first = 0; first < nodes; first += BLOCK) {
        Py_ssize_t count = nodes - first < BLOCK ? nodes - first : BLOCK;
        if (usual && is_usual_block(&question, first, count)) {
            least_allocated_block(&question, weights, first, count, results + first);
            continue;
        }
        for (Py_ssize_t n = first; n < first + count; n++) {
            results[n] = least_allocated_of(&question, weights, n);
        }
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

static int64_t
balance_change_of(const Question *question, Py_ssize_t node)
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
    const Matrix *there = &question.allocatable, *taken = &question.allocated;
    const int64_t *wanted = question.wanted;
    const int usual = there->resources == 2 && are_below(wanted, 2, (int64_t)1 << AMOUNT_BITS);
    int64_t *results = scores.buf;
    for (Py_ssize_t first = 0; first < there->nodes; first += BLOCK) {
        Py_ssize_t count = there->nodes - first < BLOCK ? there->nodes - first : BLOCK;
        if (usual && is_usual_block(&question, first, count)) {
            balance_of_two(column(there, 0) + first, column(taken, 0) + first, (double)wanted[0],
                           column(there, 1) + first, column(taken, 1) + first, (double)wanted[1],
                           results + first, count);
            continue;
        }
        for (Py_ssize_t n = first; n < first + count; n++) {
            results[n] = balance_change_of(&question, n);
        }
    }
    PyBuffer_Release(&scores);
    close_question(&question);
    Py_RETURN_NONE;
}

/* One contiguous column of some type. */
static int
open_column(PyObject *object, char type, Py_buffer *buffer)
{
    if (PyObject_GetBuffer(object, buffer, PyBUF_CONTIG_RO | PyBUF_FORMAT) < 0) {
        return -1;
    }
    int fits = type == 'q' ? holds_int64(buffer)
                           : buffer->format != NULL && buffer->format[0] == type;
    if (buffer->ndim != 1 || !fits) {
        PyBuffer_Release(buffer);
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

WIDE static void
find_range(const int64_t *scores, Py_ssize_t count, int64_t *lowest, int64_t *highest)
{
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (Py_ssize_t i = 0; i < count; i++) {
        low = scores[i] < low ? scores[i] : low;
        high = scores[i] > high ? scores[i] : high;
    }
    *lowest = low;
    *highest = high;
}

/* The order of operations affects the last digit; it is the reference's. */
WIDE static void
share_spread(const int64_t *scores, int64_t lowest, double spread, int64_t *restrict shares,
             Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        shares[i] = (int32_t)(as_double(scores[i] - lowest) / spread * 100.0);
    }
}

static PyObject *
spread_shares(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_buffer scores, shares;
    if (check_count(count, 2) < 0 || open_column(args[0], 'q', &scores) < 0) {
        return NULL;
    }
    if (open_scores(args[1], scores.shape[0], &shares) < 0) {
        PyBuffer_Release(&scores);
        return NULL;
    }
    int64_t lowest = 0, highest = 0;
    if (scores.shape[0]) {
        find_range(scores.buf, scores.shape[0], &lowest, &highest);
    }
    uint64_t spread = (uint64_t)highest - (uint64_t)lowest;
    if (!spread) {
        memset(shares.buf, 0, (size_t)shares.len);
    }
    else if (!(spread >> 52)) {
        share_spread(scores.buf, lowest, (double)spread, shares.buf, scores.shape[0]);
    }
    PyBuffer_Release(&shares);
    PyBuffer_Release(&scores);
    return PyBool_FromLong(!(spread >> 52));
}

/* Return a negative number if a score is out of range. */
static inline int64_t
add_scores(int64_t *sums, const int64_t *scores, int64_t weight, int64_t most, Py_ssize_t count)
{
    int64_t outside = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        outside |= scores[i] | subtract(most, scores[i]);
        sums[i] = add(sums[i], multiply(scores[i], weight));
    }
    return outside;
}

WIDE static int64_t
add_checked(int64_t *sums, const int64_t *scores, int64_t most, Py_ssize_t count)
{
    return add_scores(sums, scores, 1, most, count);
}

WIDE static int64_t
add_weighted_checked(int64_t *sums, const int64_t *scores, int64_t weight, int64_t most,
                     Py_ssize_t count)
{
    return add_scores(sums, scores, weight, most, count);
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
    int64_t outside = weight == 1
                          ? add_checked(total.buf, scores.buf, most, scores.shape[0])
                          : add_weighted_checked(total.buf, scores.buf, weight, most, scores.shape[0]);
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
    {"spread_shares", (PyCFunction)(void (*)(void))spread_shares, METH_FASTCALL,
     "spread_shares(scores, shares): from 0 (lowest) to 100; False if the spread is too large."},
    {"add_weighted", (PyCFunction)(void (*)(void))add_weighted, METH_FASTCALL,
     "add_weighted(total, scores, weight, most): whether all scores are in 0..most."},
    {NULL, NULL, 0, NULL},
};

static int
add_constants(PyObject *loops)
{
    return PyModule_AddIntConstant(loops, "REVISION", 2); /* as in kernels.py */
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
