<?php
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands still in one way of being called after the other: says what debug_backtrace() tells of each frame (function, file
 * and line), and waits for a line of the caller. The innermost frame is what it waits in.
 */
namespace Made\Here;

const CODE = ['include' => '{include}', 'require' => '{include}', 'include_once' => '{include}',
              'require_once' => '{include}', 'eval' => '{eval}'];

function said($name, $file, $line)
{
    echo $name, "\t", $file, "\t", $line, "\n";
}

/* Each entry of a trace says where its frame was called from, which is where the next one is. */
function told($case)
{
    $trace = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS);
    if (isset($trace[count($trace) - 1]['file'])) {
        $trace[] = ['function' => '{main}'];
    }
    echo 'case ', $case, ' ', count($trace) + 1, "\n";
    said('fgets', '', 0);
    said(__FUNCTION__, __FILE__, __LINE__ + 9);
    for ($i = 1; $i < count($trace); $i++) {
        $class = isset($trace[$i]['class']) ? strstr($trace[$i]['class'] . "\0", "\0", true) . '::' : '';
        $function = $trace[$i]['function'];
        $function = $class === '' && isset(CODE[$function]) ? CODE[$function] : $class . $function;
        $at = $trace[$i - 1];
        said($function, $at['file'] ?? '', $at['line'] ?? 0);
    }
    echo "ready\n";
    fgets(STDIN);
}

class Base
{
    public $value = 1;

    public function inherited($case)
    {
        told($case);
    }

    public static function still($case)
    {
        self::under($case);
    }

    private static function under($case)
    {
        told($case);
    }

    public function bound()
    {
        return function ($case) {
            told($case);
        };
    }

    public function __call($name, $arguments)
    {
        told($arguments[0]);
    }

    public static function __callStatic($name, $arguments)
    {
        told($arguments[0]);
    }

    public function __get($name)
    {
        told($name);
    }

    public function __toString()
    {
        told('to_string');
        return '';
    }

    public function __invoke($case)
    {
        told($case);
    }
}

trait Shared
{
    public function fromTrait($case)
    {
        told($case);
    }
}

class Derived extends Base implements \ArrayAccess, \IteratorAggregate, \Countable
{
    use Shared;

    #[\ReturnTypeWillChange]
    public function offsetGet($case)
    {
        told($case);
    }

    #[\ReturnTypeWillChange]
    public function offsetExists($case)
    {
        told($case);
        return true;
    }

    #[\ReturnTypeWillChange]
    public function offsetSet($case, $value)
    {
    }

    #[\ReturnTypeWillChange]
    public function offsetUnset($case)
    {
    }

    #[\ReturnTypeWillChange]
    public function getIterator()
    {
        told('iterator');
        return new \ArrayIterator([]);
    }

    #[\ReturnTypeWillChange]
    public function count()
    {
        told('count');
        return 0;
    }
}

class Ending
{
    public function __destruct()
    {
        told('destructor');
    }
}

function produced($case)
{
    yield 1;
    told($case);
    yield 2;
}

function delegated($case, $depth)
{
    $outer = $depth * 2;
    yield 0;
    if ($depth) {
        yield from delegated($case, $depth - 1);
    } else {
        yield from produced($case);
    }
}

function descended($case, $depth)
{
    if ($depth) {
        descended($case, $depth - 1);
    } else {
        told($case);
    }
    return $depth;
}

function finally_left($case)
{
    try {
        throw new \Exception($case);
    } catch (\Exception $caught) {
        told($case);
    } finally {
        told($case . '_finally');
    }
}

function over(
    $case
) {
    return array_map(
        function ($one) {
            return strlen(
                (string)told($one)
            );
        },
        [$case]
    );
}

function in_array_map()
{
    array_map('Made\Here\told', ['array_map']);
}

function in_usort()
{
    $some = [2, 1];
    usort($some, function ($a, $b) {
        told('usort');
        return $a - $b;
    });
}

function in_replace()
{
    preg_replace_callback('/a/', function ($match) {
        told('preg_replace_callback');
        return 'b';
    }, 'a');
}

function in_generators()
{
    foreach (produced('generator') as $one) {
    }
    iterator_to_array(produced('iterator_to_array'));
    $generator = produced('generator_next');
    $generator->next();
}

function in_delegated($depth)
{
    foreach (delegated('delegated_' . $depth, $depth) as $one) {
    }
}

function in_file($folder)
{
    include $folder . '/included.php';
    require $folder . '/included.php';
    eval("\n\n Made\\Here\\told('eval');");
    eval('function evaluated() { Made\Here\told("function_of_eval"); }');
    \evaluated();
}

function in_objects()
{
    $object = new Derived();
    $object->inherited('inherited');
    Derived::still('static');
    $object->fromTrait('trait');
    ($object->bound())('bound');
    $object->missing('call');
    Derived::missing('call_static');
    $object->absent;
    (string)$object;
    $object('invoke');
    $object['offset_get'];
    isset($object['offset_exists']);
    foreach ($object as $one) {
    }
    count($object);
    (new \ReflectionMethod('Made\Here\Derived', 'inherited'))->invoke($object, 'reflection');
    call_user_func([$object, 'fromTrait'], 'call_user_func');
    call_user_func_array('Made\Here\Derived::still', ['call_user_func_array']);
    $anonymous = new class {
        public function inside($case)
        {
            told($case);
        }
    };
    $anonymous->inside('anonymous');
    $ending = new Ending();
    unset($ending);
}

function in_loading()
{
    spl_autoload_register(function ($class) {
        told('autoload');
        eval('namespace Made\Here; class Loaded {}');
    });
    new Loaded();
}

function in_fiber()
{
    if (PHP_VERSION_ID < 80100) {
        return;
    }
    $fiber = new \Fiber(function () {
        told('fiber');
        \Fiber::suspend();
        told('fiber_resumed');
    });
    $fiber->start();
    $fiber->resume();
}

function in_functions()
{
    told('function');
    descended('descended', 200);
    over('lines');
    array_filter([1], function () {
        told('array_filter');
    });
    (function () {
        told('closure');
    })();
    $arrow = fn($case) => told($case);
    $arrow('arrow');
    finally_left('caught');
    ob_start();
    ob_end_clean();
}

in_functions();
in_array_map();
in_usort();
in_replace();
in_generators();
for ($depth = 0; $depth < 4; $depth++) {
    in_delegated($depth);
}
in_file(__DIR__);
in_objects();
in_loading();
in_fiber();
told('main');
register_shutdown_function(function () {
    told('shutdown');
});
