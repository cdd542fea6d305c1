import t from 'tap';
import { ensureInstalled } from '../../services/debian.ts';
import { provePowerLoss } from './losses.ts';
import { publications } from './publications.ts';
import { trails } from './trails.ts';

/**
 * Power losses during publications and writes of an audit trail. The program runs once, and strace records
 * its changes. A power loss is then simulated after each step, and unsynced changes are partly lost
 * (`disk.ts`).
 */

await ensureInstalled('strace');
provePowerLoss(t, [...publications(t), trails(t)], { protocols: 3, losses: 40 });
