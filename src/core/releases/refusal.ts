import { WaybillError } from '../lib/errors.ts';
import type { SwitchRefusal } from './switch.ts';

/**
 * The error for a refused switch. `where` is the bundle path as messages name it. Pure.
 */
export function switchRefused(refusal: SwitchRefusal, where: string): WaybillError {
  const { message, hint } = explain(refusal);
  return new WaybillError('release_unusable', `${where}: ${message}; the current release is unchanged`, {
    hint,
  });
}

const others = 'run `waybill releases list` to see the other releases';

function explain(refusal: SwitchRefusal): { message: string; hint: string } {
  switch (refusal.why) {
    case 'foreign_pointer':
      return {
        message: `the pointer leads to "${refusal.target}", which is not a release`,
        hint: 'waybill did not create it: check it, move it away and run again',
      };
    case 'nothing_to_go_back_to':
      return {
        message: 'there is no earlier release to roll back to',
        hint: `${others}, and choose one with --to ID`,
      };
    case 'rolled_back':
      return {
        message: `release ${refusal.id} was rolled back`,
        hint: 'run `waybill releases promote` to make it current again',
      };
    case 'being_removed':
      return { message: `release ${refusal.id} is being removed`, hint: others };
    case 'overtaken':
      return {
        message: `another release became current before ${refusal.id} could`,
        hint: 'run again to decide on the new state',
      };
    case 'name_taken':
      return {
        message: `"${refusal.name}" exists but is not the pointer of the channel with this name`,
        hint: 'check it and move it away, or rename the channel',
      };
    case 'not_found':
      return { message: `there is no release ${refusal.id}`, hint: others };
    case 'unfinished':
      return {
        message: `release ${refusal.id} is not complete: its publication was interrupted`,
        hint: 'publish its bundle again to finish it',
      };
    case 'unreadable':
      return { message: `the catalog of release ${refusal.id} cannot be read`, hint: others };
    case 'damaged': {
      const more = refusal.others === 0 ? 'is' : `and ${refusal.others} more are`;
      return {
        message: `release ${refusal.id} is damaged: "${refusal.path}" ${more} missing or of another size`,
        hint: `run \`waybill verify --repair\` to restore the files, or ${others}`,
      };
    }
  }
}
