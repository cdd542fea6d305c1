/**
 * Makes tests faster by changing how tap finds out which test an uncaught error belongs to. tap uses an async
 * hook, which makes promises several times as expensive. Random walks spend more than half of their time on
 * it. Instead, this module assumes that the error belongs to the test that was started last, which is correct
 * as long as tests run one after another. It is loaded before the test file.
 *
 * It does this by replacing parts of `node:async_hooks` for the package `async-hook-domain`: hooks do
 * nothing, and the current context is always the test's. The tests use neither for anything else.
 */
import hooks, { AsyncResource } from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';

const outsideOfTests = 1;
/** The contexts of all tests that are running. */
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
  // tap creates tests in advance, so the first call does not mean that the test begins.
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
