defmodule Shop.Stager do
  defp stage_scheduled(state, leader?: true) do
    subquery =
      Job
      |> select([:id, :state])
      |> where([j], j.state in ["scheduled", "retryable"])
      |> where([j], not is_nil(j.queue))

    Repo.all(subquery, state)
  end

  defp stage_available(state) do
    query =
      Job
      |> where([j], j.state == "available")

    Repo.all(query, state)
  end
end
