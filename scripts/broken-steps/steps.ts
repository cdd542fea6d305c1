/** A step of the protocol. The text in the source to replace must occur exactly once. */
export interface BrokenStep {
  step: string;
  file: string;
  from: string;
  to: string;
  /** The test that should fail without this step. */
  suite: string;
}

const faults = 'test/faults/every-fault.test.ts';
const freezes = 'test/faults/frozen-publisher.test.ts';
const releases = 'test/faults/releases.test.ts';

export const brokenSteps: readonly BrokenStep[] = [
  {
    step: 'intent',
    file: 'src/core/publish/apply/apply.ts',
    from: 'await lease.writeState(announcedCatalog(plan, lease, base, clock.now()));',
    to: 'announcedCatalog(plan, lease, base, clock.now());',
    suite: faults,
  },
  {
    step: 'save',
    file: 'src/core/publish/apply/apply.ts',
    from: 'await attempt.save();',
    to: '',
    suite: faults,
  },
  {
    step: 'undo',
    file: 'src/core/publish/apply/apply.ts',
    from: 'await attempt.undo(failure);',
    to: '',
    suite: faults,
  },
  {
    step: 'settle',
    file: 'src/core/publish/apply/apply.ts',
    from: 'return settleInterrupted(storage, state.catalog, concernedPaths(plan));',
    to: 'return { outputs: plan.untouched, vanished: [] };',
    suite: faults,
  },
  {
    step: 'commit',
    file: 'src/core/publish/apply/apply.ts',
    from: 'await lease.writeState(catalog);',
    to: '',
    suite: faults,
  },
  {
    step: 'sync',
    file: 'src/core/catalog/lease/lock-lease.ts',
    from: 'if (isLast) await storage.sync();',
    to: '',
    suite: faults,
  },
  {
    step: 'sweep of staging',
    file: 'src/core/catalog/lease/lock-lease.ts',
    from: "await (type === 'directory' ? storage.removeTree(key) : storage.remove(key));",
    to: '',
    suite: faults,
  },
  {
    step: 'sweep of copies',
    file: 'src/core/catalog/lease/staged-copies.ts',
    from: '    check();\n    await storage.removeTree(key);',
    to: '',
    suite: faults,
  },
  {
    step: 'fence before outputs change',
    file: 'src/core/publish/apply/apply.ts',
    from: 'await lease.fence();\n    const inTheWay',
    to: 'const inTheWay',
    suite: freezes,
  },
  {
    step: 'fence before the state changes',
    file: 'src/core/catalog/lease/lock-lease.ts',
    from: "await storage.write(next, body, { mode: 'scratch', ...expected });\n    await this.fence();",
    to: "await storage.write(next, body, { mode: 'scratch', ...expected });",
    suite: freezes,
  },
  {
    step: 'renewal check',
    file: 'src/core/catalog/lease/heartbeat.ts',
    from: 'this.#loseIfTooLate();\n    this.signal.throwIfAborted();',
    to: '',
    suite: freezes,
  },
  {
    step: 'condition of the state',
    file: 'src/core/catalog/lease/state-lease.ts',
    from: "{ mode: 'replace', ifVersion: this.#version, ...how }",
    to: "{ mode: 'replace', ...how }",
    // There is a separate test for this, because the random walks never get into this situation.
    suite: 'test/core/catalog/lease/state-lease.test.ts',
  },
  {
    step: 'ledger before pointer',
    file: 'src/core/releases/releases-store.ts',
    from: '  if (ledger !== found.ledger) {\n    const bytes',
    to: '  if (current !== found.current) await setLink(held, lease, currentLinkKey, current);\n  if (ledger !== found.ledger) {\n    const bytes',
    suite: releases,
  },
];
