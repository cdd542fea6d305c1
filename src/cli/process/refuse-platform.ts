import { refusalOf } from './platform.ts';

/*
 * Imported first by each program: what comes after may not even load where this refuses, and would say so in
 * words of its own.
 */
const refusal = refusalOf({
  node: process.versions.node,
  platform: process.platform,
  arch: process.arch,
});
if (refusal !== null) {
  process.stderr.write(refusal);
  process.exit(2);
}
