/**
 * Loaded before a test file. tap finds the test that an uncaught error belongs to by an asynchronous hook,
 * which makes every promise of the process several times as dear: more than half of the processor time of a
 * walk. Here such an error belongs to the test that began last of those that run, which is the same as long
 * as tests follow one another.
 *
 * `async-hook-domain` looks its domains up by asynchronous context. It gets no hook, and as the context that
 * of the test. Nothing else in the tests asks for either.
 */
import hooks, { AsyncResource } from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';

const outsideOfTests = 1;
/** The contexts of the tests that have begun and not ended. */
const running = [];
const made = new WeakSet();
const noHook = { enable: () => noHook, disable: () => noHook };
const { runInAsyncScope, emitDestroy } = AsyncResource.prototype;

hooks.createHook = () => noHook;
hooks.executionAsyncId = () => running.at(-1) ?? outsideOfTests;
AsyncResource.prototype.runInAsyncScope = function (work, ...rest) {
  const run = () => Reflect.apply(runInAsyncScope, this, [work, ...rest]);
  if (!isOfTest(this)) return run();
  const isBeginning = made.has(this);
  begin(this.asyncId());
  // At first a test is made, which may be long before it begins.
  made.add(this);
  try {
    return run();
  } finally {
    if (!isBeginning) end(this.asyncId());
  }
};
AsyncResource.prototype.emitDestroy = function () {
  if (isOfTest(this)) end(this.asyncId());
  return Reflect.apply(emitDestroy, this, []);
};
syncBuiltinESMExports();

function isOfTest(resource) {
  return resource.constructor.name === 'TapWrap';
}

function begin(context) {
  if (!running.includes(context)) running.push(context);
}

function end(context) {
  const index = running.indexOf(context);
  if (index !== -1) running.splice(index, 1);
}
