import { pointerSegments } from './pointer.ts';

/** The offsets of a value and of its property name; null if not found yet. */
export interface Place {
  value: number | null;
  key: number | null;
  children: Map<string, Place>;
}

/** A tree of the wanted places, so that locating costs nothing for all other values. */
export function placesOf(pointers: Iterable<string>): Place {
  const root = newPlace();
  for (const pointer of pointers) {
    let place = root;
    for (const segment of pointerSegments(pointer)) {
      let child = place.children.get(segment);
      if (child === undefined) {
        child = newPlace();
        place.children.set(segment, child);
      }
      place = child;
    }
  }
  return root;
}

/** The offset of the value at a pointer, or of the nearest enclosing value that exists. */
export function valueOffset(root: Place, pointer: string): number {
  let place = root;
  for (const segment of pointerSegments(pointer)) {
    const child = place.children.get(segment);
    if (child?.value == null) break;
    place = child;
  }
  return place.value ?? 0;
}

/** The offset of the property name at a pointer; null if there is none. */
export function keyOffset(root: Place, pointer: string): number | null {
  let place: Place | undefined = root;
  for (const segment of pointerSegments(pointer)) place = place?.children.get(segment);
  return place?.key ?? null;
}

function newPlace(): Place {
  return { value: null, key: null, children: new Map() };
}
