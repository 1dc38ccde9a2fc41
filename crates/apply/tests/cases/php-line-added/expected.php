<?php

function greet(string $name): string
{
    $name = trim($name);
    return "Hello, $name";
}

function leave(string $name): string
{
    $name = trim($name);
    $name = ucfirst($name);
    return "Goodbye, $name";
}
