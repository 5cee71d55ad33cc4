<?php
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Burns CPU in all ways in which PHP's functions are called, until its input ends. With the argument "functions" it says
 * where each of its functions is: name, first line, last line.
 */
function spin($rounds)
{
    $sum = 0;
    for ($i = 0; $i < $rounds; $i++) {
        $sum += $i % 7;
        $sum ^= $i;
    }
    return $sum;
}

function compare($a, $b)
{
    spin(300);
    return $a - $b;
}

function by_usort()
{
    $some = [5, 3, 9, 1, 7, 2];
    usort($some, 'compare');
}

function mapped($one)
{
    return spin(500) + $one;
}

function by_map()
{
    array_map('mapped', [1, 2, 3]);
}

function replaced($match)
{
    return (string)spin(500);
}

function by_replace()
{
    preg_replace_callback('/a/', 'replaced', 'aba');
}

function produced()
{
    for ($i = 0; $i < 3; $i++) {
        yield spin(500);
    }
}

function delegated()
{
    yield from produced();
}

function by_generator()
{
    foreach (delegated() as $one) {
    }
}

function by_closure()
{
    $closure = function () {
        return spin(1000);
    };
    $closure();
}

function descend($depth)
{
    return $depth ? descend($depth - 1) : spin(500);
}

class Work
{
    private $held = [];

    public function method()
    {
        self::still();
        $this->held = [];
    }

    private static function still()
    {
        return spin(1000);
    }

    public function __toString()
    {
        return (string)spin(500);
    }

    public function hold()
    {
        for ($i = 0; $i < 200; $i++) {
            $this->held[] = str_repeat('x', 100) . $i;
        }
        sort($this->held);
    }
}

function by_method()
{
    $work = new Work();
    $work->method();
    $work->hold();
    (string)$work;
}

function by_include()
{
    include __DIR__ . '/busy_included.php';
}

function by_text()
{
    hash('sha256', str_repeat('text', 2000));
    md5(serialize(range(1, 500)));
}

function work()
{
    by_usort();
    by_map();
    by_replace();
    by_generator();
    by_closure();
    descend(30);
    by_method();
    by_include();
    by_text();
}

function ranges()
{
    foreach (get_defined_functions()['user'] as $name) {
        $function = new ReflectionFunction($name);
        echo $name, ' ', $function->getStartLine(), ' ', $function->getEndLine(), "\n";
    }
    foreach ((new ReflectionClass('Work'))->getMethods() as $method) {
        echo 'Work::', $method->getName(), ' ', $method->getStartLine(), ' ', $method->getEndLine(), "\n";
    }
}

if (($argv[1] ?? '') === 'functions') {
    ranges();
    exit;
}
stream_set_blocking(STDIN, false);
echo "ready\n";
while (fgets(STDIN) !== false || !feof(STDIN)) {
    work();
}
