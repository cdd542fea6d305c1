import t from 'tap';
import { ensureInstalled } from '../../services/debian.ts';
import { provePowerLoss } from './losses.ts';
import { publications } from './publications.ts';
import { trails } from './trails.ts';

/**
 * Power losses during publications, and while an audit trail is written. The program runs once, and strace
 * records its changes. The power then goes after each step, and unsynced changes are partly lost (`disk.ts`).
 */

await ensureInstalled('strace');
provePowerLoss(t, [...publications(t), trails(t)], { protocols: 3, losses: 40 });
