"""Kubernetes' functions and the language's extensions, library by library."""

from __future__ import annotations

import pytest

from tests.foundation.cel.support import outcome

STRINGS = {
    "'tacocat'.charAt(3)": "o",
    "'abc'.charAt(3)": "",
    "'abc'.charAt(4)": "runtime: index out of range: 4",
    "'hello mellow'.indexOf('ello')": 1,
    "'hello mellow'.indexOf('ello', 2)": 7,
    "'hello mellow'.indexOf('jello')": -1,
    "'hello mellow'.indexOf('ello', 20)": "runtime: index out of range: 20",
    "'hello mellow'.lastIndexOf('ello')": 7,
    "'hello mellow'.lastIndexOf('ello', 6)": 1,
    "'hello mellow'.lastIndexOf('')": 12,
    "['hello', 'mellow'].join()": "hellomellow",
    "['hello', 'mellow'].join(' ')": "hello mellow",
    "[].join('/')": "",
    "dyn([1]).join()": "runtime: join: invalid input: 1",
    "'TacoCÆt'.lowerAscii()": "tacocÆt",
    "'tacoCæt'.upperAscii()": "TACOCæT",
    "'hello hello'.replace('he', 'we')": "wello wello",
    "'hello hello'.replace('he', 'we', 1)": "wello hello",
    "'hello'.replace('', '_')": "_h_e_l_l_o_",
    "'a b c'.split(' ')": ["a", "b", "c"],
    "'a b c'.split(' ', 2)": ["a", "b c"],
    "'a b c'.split(' ', 0)": [],
    "'abc'.split('')": ["a", "b", "c"],
    "'abc'.split('', 2)": ["a", "bc"],
    "'tacocat'.substring(4)": "cat",
    "'tacocat'.substring(0, 4)": "taco",
    "'tacocat'.substring(40)": "runtime: index out of range: 40",
    "'tacocat'.substring(4, 0)": "runtime: invalid substring range. start: 4, end: 0",
    "' \\t x \\n'.trim()": "x",
    "'hello'.matches('^h.*o$')": True,
    "matches('hello', 'l+')": True,
    "text.startsWith('he') && text.endsWith('lo') && text.contains('ell')": True,
    "dyn(1).startsWith('a')": "runtime: no such overload",
    "dyn(1).lowerAscii()": "runtime: no such overload: lowerAscii(int)",
    "'héllo'.size()": 5,
    "size('') + size([1]) + size({1: 2})": 2,
    "dyn(1).size()": "runtime: no such overload",
    "strings.quote('a \"b\"\\n')": '"a \\"b\\"\\n"',
    "'a'.reverse()": "compile: found no matching overload for 'reverse' applied to 'string.()'",
}

FORMAT = {
    "'%s is %d'.format(['a', 3])": "a is 3",
    "'%s %s %s'.format([true, null, 2.5])": "true null 2.5",
    "'%s'.format([[1, 2]])": "[1, 2]",
    "'%s'.format([{'b': 2, 'a': 1}])": "{a: 1, b: 2}",
    "'%.2f'.format([3.14159])": "3.14",
    "'%f'.format([1.0])": "1.000000",
    "'%e'.format([1052.032911275])": "1.052033e+03",
    "'%b %b'.format([5, true])": "101 1",
    "'%x %X %o'.format([255, 255, 8])": "ff FF 10",
    "'%x'.format(['hi'])": "6869",
    "'100%%'.format([])": "100%",
    "'%d'.format(['a'])": "compile: error during formatting: decimal clause can only be used on "
    "integers, was given string",
    "'%x'.format([1.5])": "compile: error during formatting: only integers, byte buffers, and "
    "strings can be formatted as hex, was given double",
    "'%b'.format(['a'])": "compile: error during formatting: only integers and bools can be "
    "formatted as binary, was given string",
    "('%' + 'b').format([dyn('a')])": "runtime: error during formatting: only integers and bools "
    "can be formatted as binary, was given string",
    "'%s'.format([])": "compile: index 0 out of range",
    "'%s'.format([1, 2])": "compile: too many arguments supplied to string.format "
    "(expected 1, got 2)",
    "'%z'.format([1])": "compile: could not parse formatting clause: unrecognized formatting "
    'clause "z"',
    "text.format([])": "hello",
    "('%' + 'd').format([dyn('a')])": "runtime: error during formatting: decimal clause can only "
    "be used on integers, was given string",
}

LISTS = {
    "[1, 3].sum()": 4,
    "[1.5, 2.5].sum()": 4.0,
    "[1, 3, 2].max() - [1, 3, 2].min()": 2,
    "['b', 'a'].min()": "a",
    "[1, 2, 2].isSorted()": True,
    "[2, 1].isSorted()": False,
    "[1, 2, 2, 3].indexOf(2)": 1,
    "[1, 2, 2, 3].lastIndexOf(2)": 2,
    "[1].indexOf(5)": -1,
    "dyn([]).min()": "runtime: min called on empty list",
    "[1, 2, 3, 4].slice(1, 3)": [2, 3],
    "[1].slice(0, 2)": "runtime: cannot slice(0, 2), list is length 1",
    "[1].slice(-1, 0)": "runtime: cannot slice(-1, 0), negative indexes not supported",
    "[1].slice(1, 0)": "runtime: cannot slice(1, 0), start index must be less than or equal to "
    "end index",
    "[[1], [2, 3]].flatten()": [1, 2, 3],
    "dyn([[1], [[2]]]).flatten(1)": "compile: expected type 'list(int)' but found "
    "'list(list(int))'",
    "[3, 1, 2].sort()": [1, 2, 3],
    "[{'n': 2}, {'n': 1}].sortBy(e, e.n)": [{"n": 1}, {"n": 2}],
    "[[1], [2]].sort()": "runtime: list elements must be comparable",
    "[1, 2, 1].distinct()": [1, 2],
    "[1, 2].reverse()": [2, 1],
    "lists.range(3)": [0, 1, 2],
    "sets.contains([1, 2], [2])": True,
    "sets.equivalent([1, 2, 2], [2, 1])": True,
    "sets.intersects([1], [2])": False,
    "[1, 2].includes(2)": True,
    "'a'.includes('a')": True,
    "lists.range(49).includes(1)": "runtime: list size 49 exceeds maximum supported size 48",
    "lists.range(600).reverse().sort().size()": 600,
    "lists.range(800).sort().size()": "runtime: operation cancelled: actual cost limit exceeded",
    "lists.range(1000000000000)": "runtime: operation cancelled: actual cost limit exceeded",
}

PATTERNS = {
    "'abc 123'.find('[0-9]+')": "123",
    "'abc'.find('[0-9]+')": "",
    "'1 22 333'.findAll('[0-9]+')": ["1", "22", "333"],
    "'1 22 333'.findAll('[0-9]+', 2)": ["1", "22"],
    "'a'.find('(')": "runtime: error parsing regexp: missing ): (",
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!'.matches('^(a+)+$')": False,
    "'a'.matches('a(?=b)')": "compile: invalid matches argument",
}

QUANTITIES = {
    "quantity('1.5G').isGreaterThan(quantity('1G'))": True,
    "quantity('50M').compareTo(quantity('50Mi'))": -1,
    "quantity('200M').compareTo(quantity('0.2G'))": 0,
    "quantity('50k').asInteger()": 50000,
    "quantity('50k').isInteger()": True,
    "quantity('1500m').isInteger()": False,
    "quantity('1500m').asInteger()": "runtime: cannot convert value to integer",
    "quantity('9999999999999999999999G').asInteger()": "runtime: cannot convert value to integer",
    "quantity('50k').sub(20000).asApproximateFloat()": 30000.0,
    "quantity('50k').add(20) == quantity('50020')": True,
    "quantity('50020') == quantity('50k').add(20)": "runtime: no such overload",
    "sign(quantity('-5'))": -1,
    "isQuantity('10000k') && !isQuantity('200K')": True,
    "quantity('1') == quantity('1000m')": True,
    "quantity('1') != quantity('2')": True,
    "quantity('1') == 1": "compile: found no matching overload for '_==_' applied to "
    "'(kubernetes.Quantity, int)'",
    "quantity('1') > quantity('2')": "compile: found no matching overload for '_>_' applied to "
    "'(kubernetes.Quantity, kubernetes.Quantity)'",
}

VERSIONS = {
    "semver('1.2.3').major() + semver('1.2.3').minor() + semver('1.2.3').patch()": 6,
    "semver('1.0.0-alpha').isLessThan(semver('1.0.0'))": True,
    "semver('1.0.0-alpha.1').isLessThan(semver('1.0.0-alpha.beta'))": True,
    "semver('1.0.0-2').isLessThan(semver('1.0.0-11'))": True,
    "semver('1.0.0-alpha').isLessThan(semver('1.0.0-alpha.1'))": True,
    "semver('1.0.0+a') == semver('1.0.0+b')": True,
    "isSemver('1.0')": False,
    "isSemver('v1.0', true)": True,
    "semver('01.01.01', true) == semver('1.1.1')": True,
    "isSemver('1.0-alpha', true)": False,
    "semver('1.2')": "runtime: No Major.Minor.Patch elements found",
    "semver('')": "runtime: Version string empty",
    "semver('a.b.c')": 'runtime: Invalid character(s) found in major number "a"',
    "semver('1.02.3')": 'runtime: Minor number must not contain leading zeroes "02"',
    "semver('1.2-x', true)": "runtime: short version cannot contain PreRelease/Build meta data",
}

NETWORK = {
    "ip('127.0.0.1').isLoopback() && ip('::1').isLoopback()": True,
    "ip('::1').family() + ip('127.0.0.1').family()": 10,
    "ip('0.0.0.0').isUnspecified()": True,
    "ip('224.0.0.1').isLinkLocalMulticast() && !ip('224.0.1.1').isLinkLocalMulticast()": True,
    "ip('169.254.169.254').isLinkLocalUnicast()": True,
    "ip('192.168.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()": True,
    "isIP('127.0.0.256') || isIP('::ffff:1.2.3.4') || isIP('fe80::1%eth0') || isIP('01.2.3.4')": (
        False
    ),
    "ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD')": True,
    "string(ip('2001:DB8::1'))": "2001:db8::1",
    "ip('::ffff:1.2.3.4')": 'runtime: IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed',
    "cidr('192.168.0.0/24').containsIP('192.168.0.1')": True,
    "cidr('192.168.0.0/24').containsIP(ip('192.168.1.1'))": False,
    "cidr('192.168.0.0/16').containsCIDR('192.168.10.0/24')": True,
    "cidr('192.168.1.0/24').containsCIDR(cidr('192.168.0.0/16'))": False,
    "cidr('192.168.0.1/24').ip() == ip('192.168.0.1')": True,
    "cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24')": True,
    "cidr('192.168.0.1/24') == cidr('192.168.0.0/24')": False,
    "cidr('::1/128').prefixLength()": 128,
    "string(cidr('10.0.0.0/8'))": "10.0.0.0/8",
    "isCIDR('10.0.0.0/33') || isCIDR('10.0.0.0') || isCIDR('10.0.0.0/08')": False,
    "type(ip('127.0.0.1')) == net.IP": True,
}

URLS = {
    "url('https://user:pass@example.com:80/path?k=a&k=b#f').getHost()": "example.com:80",
    "url('https://example.com:80/').getPort()": "80",
    "url('https://[::1]:80/').getHost()": "[::1]:80",
    "url('https://[::1]:80/').getHostname()": "::1",
    "url('https://example.com/path with spaces/').getEscapedPath()": "/path%20with%20spaces/",
    "url('https://example.com').getEscapedPath()": "",
    "url('/path').getScheme() + url('/path').getHost()": "",
    "url('https://example.com/p?k1=a&k2=b&k2=c').getQuery()": {"k1": ["a"], "k2": ["b", "c"]},
    "isURL('../relative') || isURL('https://a:b:c/') || isURL('')": False,
    "isURL('/absolute-path')": True,
    "url('https://a.b/') == url('https://a.b/')": True,
    "url('relative')": "runtime: URL parse error during conversion from string: parse "
    '"relative": invalid URI for request',
}

FORMATS = {
    "format.dns1123Label().validate('my-name').hasValue()": False,
    "format.dns1123Label().validate('My_name').hasValue()": True,
    "format.dns1123LabelPrefix().validate('prefix-').hasValue()": False,
    "format.named('uuid').value().validate('nope').value()": ["does not match the UUID format"],
    "format.named('nope').hasValue()": False,
    "format.uri().validate('relative').value()": ['parse "relative": invalid URI for request'],
    "format.date().validate('2024-02-30').value()": ["invalid date"],
    "format.datetime().validate('2024-02-29T00:00:00Z').hasValue()": False,
    "format.byte().validate('aGVsbG8=').hasValue()": False,
}

TABLES = {
    "strings": STRINGS,
    "format": FORMAT,
    "lists": LISTS,
    "patterns": PATTERNS,
    "quantities": QUANTITIES,
    "versions": VERSIONS,
    "network": NETWORK,
    "urls": URLS,
    "formats": FORMATS,
}
CASES = [
    pytest.param(expression, want, id=f"{name}: {expression}")
    for name, table in TABLES.items()
    for expression, want in table.items()
]


@pytest.mark.parametrize(("expression", "want"), CASES)
def test_expression(expression: str, want: object) -> None:
    got = outcome(expression)
    assert got == want
    assert type(got) is type(want)
