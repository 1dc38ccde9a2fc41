import { describe, expect, it } from 'vitest'
import { box } from './box'

describe('a box', () => {
  it('holds a value', () => {
    const state = box(1)
    expect(state.value).toBe(1)
  })

  it('holds another', () => {
    const state = box(1)
    state.value = 2
    expect(state.value).toBe(2)
  })
})
