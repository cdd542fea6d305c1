/**
 * Loaded before a test file. tap attributes an uncaught error to a test with an async hook, which makes every
 * promise several times as expensive: more than half of the processor time of a walk. This module attributes
 * such an error to the running test that started last. The result is the same as long as tests run one after
 * another.
 *
 * `async-hook-domain` looks up its domains by asynchronous context. It gets no hook, and the test's context
 * as the current one. Nothing else in the tests uses either.
 */
import hooks, { AsyncResource } from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';

const outsideOfTests = 1;
/** The contexts of the tests that have started and not ended. */
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
  // tap creates a test before it starts it, possibly long before.
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
