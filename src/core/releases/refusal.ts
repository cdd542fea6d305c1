import { WaybillError } from '../errors.ts';
import type { SwitchRefusal } from './switch.ts';

/**
 * Why nothing was switched, as an error that names the release and what to do. `where` is the bundle path as
 * messages name it. Pure.
 */
export function switchRefused(refusal: SwitchRefusal, where: string): WaybillError {
  const { message, hint } = told(refusal);
  return new WaybillError('release_unusable', `${where}: ${message}; readers have what they had`, { hint });
}

const others = '`waybill releases list` shows which others there are';

function told(refusal: SwitchRefusal): { message: string; hint: string } {
  switch (refusal.why) {
    case 'foreign_pointer':
      return {
        message: `the pointer leads to "${refusal.target}", which is no release`,
        hint: 'waybill did not make it: look at it, move it away, and run again',
      };
    case 'nothing_to_go_back_to':
      return {
        message: 'there is no earlier release to go back to',
        hint: `${others}; --to ID goes to any of them`,
      };
    case 'rolled_back':
      return {
        message: `release ${refusal.id} was rolled back`,
        hint: '`waybill releases promote` makes it current all the same',
      };
    case 'being_removed':
      return { message: `release ${refusal.id} is being removed`, hint: others };
    case 'overtaken':
      return {
        message: `another release became current before ${refusal.id} could`,
        hint: 'run again to look at it as it is now',
      };
    case 'name_taken':
      return {
        message: `"${refusal.name}" is there, and is no pointer that waybill made for the channel of this name`,
        hint: 'look at it and move it away, or give the channel another name',
      };
    case 'not_found':
      return { message: `there is no release ${refusal.id}`, hint: others };
    case 'unfinished':
      return {
        message: `release ${refusal.id} is not complete: its publication was interrupted`,
        hint: 'the next run of its bundle finishes it',
      };
    case 'unreadable':
      return { message: `the catalog of release ${refusal.id} cannot be read`, hint: others };
    case 'damaged': {
      const more = refusal.others === 0 ? 'is' : `and ${refusal.others} more are`;
      return {
        message: `release ${refusal.id} is damaged: "${refusal.path}" ${more} missing or of another size`,
        hint: `\`waybill verify --repair\` writes again what it can; ${others}`,
      };
    }
  }
}
