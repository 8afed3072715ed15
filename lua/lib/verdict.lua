-- What becomes of a due job: its record beside what was proposed.

-- `job` holds next_run_at, plan, state, the live execution of the nominal time, overlap and live, in this order.
local function judge(job, due_at, plan, nominal_at)
  if job[1] ~= due_at or job[2] ~= plan or job[3] ~= 'active' then
    return 'stale'
  end
  if nominal_at == '' or job[4] then
    return 'advanced'
  end
  if job[5] == 'skip' and tonumber(job[6] or 0) > 0 then
    return 'overlap'
  end
  return 'fired'
end
