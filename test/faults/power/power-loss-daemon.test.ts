import t from 'tap';
import { ensureInstalled } from '../../services/debian.ts';
import { daemons } from './daemons.ts';
import { provePowerLoss } from './losses.ts';

/** Power losses of a daemon with the embedded queue, staging and an audit trail; see `power-loss.test.ts`. */

await ensureInstalled('strace');
provePowerLoss(t, [daemons(t)], { protocols: 1, losses: 4 });
